#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";
constexpr int64_t kBarWidth = 20;
constexpr int64_t kLineWidth = 79;

}  // namespace

Progress::Progress(std::string what, int64_t total)
    : what_(std::move(what)), total_(total), is_shown_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (is_shown_) fmt::print(stderr, "{}", kClearLine);
}

void Progress::advance(std::string_view part) {
  if (!is_shown_) return;
  const int64_t filled = kBarWidth * done_ / total_;
  const std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {}/{} {}", what_, "", filled, "",
                                       kBarWidth - filled, ++done_, total_, part);
  fmt::print(stderr, "{}{}", kClearLine, report::shorten(line, kLineWidth));
  std::fflush(stderr);
}

}  // namespace sotto::cli
