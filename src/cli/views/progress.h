// One line on a terminal that says how far a command has come. Where standard error is no terminal
// it stays silent, so that logs hold no half lines.
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

  // Shows `done` of `total` parts and something to say about them; a few times a second, however
  // often it is called.
  void show(int64_t done, int64_t total, std::string_view about);

  // Takes the line away, for another to be printed in its place.
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

// "training [####......] 120/300 loss 1.2", in at most `width` columns: the bar gives way first,
// then the end of the text.
std::string progress_line(const ProgressState& state, int64_t width);

}  // namespace sotto::cli
