// The blocks of a page of docs/ that a test runs, and how what they expect is held against what
// came.
//
//   ```console
//   $ sotto train --config tiny.yaml --memory 8
//   sotto: reading the memory size '8': it has no unit. ...
//   (exit code 2)
//   ```
//
// Lines below a command are lines of its output in their order; ... stands for any text; without an
// exit code 0 is expected. A comment above a block says more of it:
//
//   <!-- before: COMMAND -->   run before each of its commands, in the same shell
//   <!-- needs: audio -->      left out in a build without it
//   <!-- source: FILE -->      of a ```text block: messages whose words stand in that file
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sotto::test {

struct ConsoleCommand {
  std::string text;
  // In the page, from 1.
  int64_t line = 0;
  std::vector<std::string> expected = {};
  int exit_code = 0;
};

struct DocBlock {
  // The heading above it.
  std::string section;
  int64_t line = 0;
  // Of its comments; empty where there are none.
  std::string before = {};
  std::string needs = {};
  std::string source = {};
  // Of a console block, or the lines of a text block.
  std::vector<ConsoleCommand> commands = {};
  std::vector<std::string> messages = {};
};

// The console blocks of a page, and those text blocks that name a source, in their order. Throws
// std::runtime_error where a block is not as above.
std::vector<DocBlock> read_blocks(const std::filesystem::path& page);

// Whether a line is the one that is expected.
bool matches(std::string_view expected, std::string_view line);

// The first expected line that the output does not have behind those before it; none where all are
// there.
std::optional<std::string> find_missing(const std::vector<std::string>& expected,
                                        const std::string& output);

// The first part of a message that a source file does not have in its strings; none where all are
// there. A message is cut where it is put together: at ..., and between its parts.
std::optional<std::string> find_unsaid(const std::string& message,
                                       const std::filesystem::path& source);

}  // namespace sotto::test
