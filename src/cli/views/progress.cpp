#include "cli/views/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "cli/views/console.h"
#include "sotto/report/table.h"

namespace sotto::cli {

namespace {

constexpr const char* kClearLine = "\r\x1b[K";
constexpr int64_t kLongestBar = 20;
constexpr int64_t kShortestBar = 4;
constexpr int64_t kUsualWidth = 80;

int64_t terminal_width() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kUsualWidth;
  return size.ws_col;
}

}  // namespace

Progress::Progress(std::string what)
    : what_(std::move(what)), is_terminal_(isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  clear();
}

void Progress::clear() {
  if (is_terminal_) print_error(kClearLine);
}

void Progress::show(int64_t done, int64_t total, std::string_view about) {
  if (!is_terminal_ || total <= 0) return;
  const auto now = std::chrono::steady_clock::now();
  if (done < total && now - last_ < std::chrono::milliseconds(100)) return;
  last_ = now;
  // A line as wide as the terminal would wrap into the next one.
  const std::string line = progress_line(
      {.what = what_, .done = done, .total = total, .about = about}, terminal_width() - 1);
  print_error(kClearLine + line);
}

std::string progress_line(const ProgressState& state, int64_t width) {
  const std::string text = fmt::format("{}/{} {}", state.done, state.total, state.about);
  const int64_t taken = report::display_width(state.what) + report::display_width(text) + 4;
  const int64_t length = std::min(kLongestBar, width - taken);
  std::string bar;
  if (length >= kShortestBar) {
    const int64_t filled = length * state.done / std::max<int64_t>(1, state.total);
    bar = fmt::format("[{:#<{}}{:.<{}}] ", "", filled, "", length - filled);
  }
  return report::shorten(fmt::format("{} {}{}", state.what, bar, text), width);
}

}  // namespace sotto::cli
