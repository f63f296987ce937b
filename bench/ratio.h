// Speeds in pairs: ours beside theirs on the same work, run in turns, and the ratio of their
// medians against the bar it is held to. Google Benchmark knows a pair as topic/shape/ours and
// topic/shape/theirs.
#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sotto::bench {

// The two sides, each one unit of work a call. They own their data.
struct Sides {
  std::function<void()> ours;
  std::function<void()> theirs;
  // Returns the peak of allocated bytes since its last call; absent: memory is not measured.
  std::function<int64_t()> take_peak_bytes = nullptr;
};

struct Pair {
  std::string topic;
  std::string shape;
  // Least ratio theirs / ours that is wanted; 0: none, for information.
  double at_least = 0.0;
  // Seconds of audio in a unit of work: the table then says how many go through in a second, as
  // (900 x). 0: it is not of audio.
  double audio_s = 0.0;
  // The table also has the peak memory of both.
  bool compares_memory = false;
  // Called when the pair's turn comes, so that only one pair's data is alive.
  std::function<Sides()> make;

  std::string name() const { return topic + "/" + shape; }
};

// Which of a run's times the ratios compare.
enum class Clock {
  kWall,
  // Of the processor, all threads together: for a machine that has other work at the same time.
  kProcessor
};

// Holds the pairs, makes them known to Google Benchmark, runs them and prints the table of ratios.
class PairRunner {
 public:
  PairRunner(std::vector<Pair> pairs, Clock clock);

  // One pair after the other: both sides see the same minute of the machine. `filter` as in
  // --benchmark_filter.
  void run_in_turns(const std::string& filter);

  // All that Google Benchmark's flags ask for in a single run: for files and other formats.
  void run_at_once();

  // topic, shape, both medians, ratio, bar, and whether it is met; empty where no pair ran whole.
  // Below it, where pairs compare memory, the same of their peaks.
  std::string ratios() const;

 private:
  void add(const Pair& pair, const std::string& side);
  Sides make_sides(const Pair& pair);
  std::string memory_ratios() const;

  std::vector<Pair> pairs_;
  Clock clock_;
  std::map<std::string, Sides> made_;        // by the pair's name
  std::map<std::string, double> medians_s_;  // by the benchmark's name
  std::map<std::string, int64_t> peaks_;     // bytes, by the benchmark's name
};

}  // namespace sotto::bench
