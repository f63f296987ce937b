#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";
constexpr int64_t kBarWidth = 20;
constexpr int64_t kLineWidth = 79;

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (is_terminal_) fmt::print(stderr, "{}", kClearLine);
}

void Progress::show(int64_t done, int64_t total, std::string_view about) {
  if (!is_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  const int64_t filled = kBarWidth * done / std::max<int64_t>(1, total);
  const std::string line = fmt::format("{} [{:#<{}}{:.<{}}] {}/{} {}", what_, "", filled, "",
                                       kBarWidth - filled, done, total, about);
  fmt::print(stderr, "{}{}", kClearLine, report::shorten(line, kLineWidth));
  std::fflush(stderr);
}

}  // namespace sotto::cli
