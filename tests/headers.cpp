// Empty: its target precompiles the headers that the tests share.
