#include "cli/commands/failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <stdexcept>

#include "sotto/core/error.h"

namespace sotto::cli {
namespace {

template <typename Thrown>
Failure failure_of(const Thrown& thrown) {
  try {
    throw thrown;  // NOLINT(bugprone-*): anything may be thrown, an int too
  } catch (...) {
    return describe_current_exception();
  }
}

const Problem kProblem = {.attempted = "doing it", .found = "it is\nbroken"};

TEST(Failure, EachErrorHasItsExitCode) {
  EXPECT_EQ(failure_of(ConfigError(kProblem)).exit_code, 2);
  EXPECT_EQ(failure_of(DataError(kProblem)).exit_code, 2);
  EXPECT_EQ(failure_of(OutOfMemory(kProblem)).exit_code, 3);
  EXPECT_EQ(failure_of(InternalError(kProblem)).exit_code, 70);
  EXPECT_EQ(failure_of(std::runtime_error("x")).exit_code, 70);
  EXPECT_EQ(failure_of(7).exit_code, 70);
}

TEST(Failure, FailedHostAllocationIsOutOfMemory) {
  const Failure failure = failure_of(std::bad_alloc());
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_EQ(failure.message, "out of memory: the host has no more memory");
  const c10::Error torch(
      {"function", "file.cpp", 1},
      "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes");
  EXPECT_EQ(failure_of(torch).exit_code, 3);
}

TEST(Failure, UnusablePathIsBadInput) {
  std::string message;
  try {
    std::filesystem::create_directories(std::filesystem::path("/tmp") / std::string(300, 'n'));
  } catch (...) {
    const Failure failure = describe_current_exception();
    EXPECT_EQ(failure.exit_code, 2);
    message = failure.message;
  }
  EXPECT_TRUE(message.starts_with("using /tmp/nnn")) << message;
  EXPECT_TRUE(
      message.ends_with("...: File name too long. Expected a path that this machine can use."))
      << message;
}

TEST(Failure, MessageIsOneLine) {
  EXPECT_EQ(failure_of(DataError(kProblem)).message, "doing it: it is broken.");
  EXPECT_EQ(failure_of(std::runtime_error("a\nb\n")).message, "a b");
}

TEST(Failure, HasTheNameAndThePartsOfTheError) {
  const Failure failure = failure_of(Infeasible(
      {.attempted = "fitting", .found = "8", .expected = "at most 7", .hint = "Take less."}));
  EXPECT_EQ(failure.exit_code, 2);
  EXPECT_EQ(failure_json(failure).dump(),
            R"({"error":"Infeasible","attempted":"fitting","found":"8","expected":"at most 7",)"
            R"("hint":"Take less.","message":"fitting: 8. Expected at most 7. Take less.",)"
            R"("exit_code":2})");
  EXPECT_EQ(failure_of(ConfigError(kProblem)).error, "ConfigError");
  EXPECT_EQ(failure_of(DataError(kProblem)).error, "DataError");
  EXPECT_EQ(failure_of(OutOfMemory(kProblem)).error, "OutOfMemory");
  EXPECT_EQ(failure_of(7).error, "InternalError");
  EXPECT_EQ(failure_of(std::runtime_error("x")).problem.found, "x");
}

TEST(Failure, LibTorchErrorsHaveNoBacktrace) {
  const c10::Error error({"function", "file.cpp", 1}, "shapes differ");
  const Failure failure = failure_of(error);
  EXPECT_EQ(failure.exit_code, 70);
  EXPECT_EQ(failure.message, "shapes differ");
}

}  // namespace
}  // namespace sotto::cli
