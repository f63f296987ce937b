// One line on a terminal that shows the progress of a command. Silent where standard error is not a
// terminal, so that logs contain no partial lines.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace sotto::cli {

class Progress {
 public:
  explicit Progress(std::string what);
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `done` of `total` parts and a text about them; at most a few times per second, however
  // often it is called.
  void show(int64_t done, int64_t total, std::string_view about);

  // Clears the line, so that another can be printed in its place.
  void clear();

 private:
  std::string what_;
  bool is_terminal_;
  std::chrono::steady_clock::time_point last_ = {};
};

struct ProgressState {
  std::string_view what;
  int64_t done = 0;
  int64_t total = 0;
  std::string_view about;
};

// Formats as "training [####......] 120/300 loss 1.2", in at most `width` columns: the bar is
// shortened first, then the end of the text.
std::string progress_line(const ProgressState& state, int64_t width);

}  // namespace sotto::cli
