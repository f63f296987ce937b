// One line on a terminal that says how far a command has come. Where standard error is no terminal
// it stays silent, so that logs hold no half lines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sotto::cli {

class Progress {
 public:
  Progress(std::string what, int64_t total);
  // Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Says that another part begins.
  void advance(std::string_view part);

 private:
  std::string what_;
  int64_t total_;
  int64_t done_ = 0;
  bool is_shown_;
};

}  // namespace sotto::cli
