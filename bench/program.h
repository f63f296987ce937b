// The end of a bench that fails: one line, and exit 1.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <exception>

namespace sotto::bench {

int report_errors(const char* name, const auto& program) {
  try {
    return program();
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}: {}\n", name, error.what());
    return 1;
  }
}

}  // namespace sotto::bench
