// What an expression throws, as text, for tests of messages.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

namespace sotto::test {

// The message of the `Exception` that `action` throws; a failed test and "" where it throws none.
template <class Exception>
std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

// For EXPECT_PRED2(contains, text, part).
inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace sotto::test
