#include "ratio.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>

#include "sotto/report/table.h"

namespace sotto::bench {

namespace {

// What Google Benchmark appends to the names of benchmarks that measure as ours do.
constexpr const char* kSuffix = "/process_time/real_time";

// Passes everything on to the usual reporter and notes each benchmark's median.
class MedianReporter : public benchmark::BenchmarkReporter {
 public:
  MedianReporter(std::map<std::string, double>& medians_s, Clock clock, size_t name_width)
      : medians_s_(medians_s),
        clock_(clock),
        name_width_(name_width),
        usual_(benchmark::CreateDefaultDisplayReporter()) {}

  bool ReportContext(const Context& context) override {
    if (has_context_) return true;
    has_context_ = true;
    Context wide = context;
    wide.name_field_width = std::max(wide.name_field_width, name_width_);
    return usual_->ReportContext(wide);
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs) {
      const bool is_median = run.run_type == Run::RT_Aggregate && run.aggregate_name == "median";
      const bool is_only_one = run.run_type == Run::RT_Iteration && run.repetitions <= 1;
      // One that failed has run no time; the field that says so has had two names.
      if (run.iterations == 0 || (!is_median && !is_only_one)) continue;
      const double time =
          clock_ == Clock::kWall ? run.GetAdjustedRealTime() : run.GetAdjustedCPUTime();
      medians_s_[run.run_name.function_name] =
          time / benchmark::GetTimeUnitMultiplier(run.time_unit);
    }
    usual_->ReportRuns(runs);
  }

  void Finalize() override { usual_->Finalize(); }

 private:
  std::map<std::string, double>& medians_s_;
  Clock clock_;
  size_t name_width_;
  bool has_context_ = false;
  benchmark::BenchmarkReporter* usual_;  // Google Benchmark owns it
};

constexpr int64_t kTableWidth = 120;

std::string format_mebibytes(int64_t bytes) {
  return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / 0x1p20);
}

std::string format_time(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

std::string format_speed(const Pair& pair, double seconds) {
  if (pair.audio_s == 0.0) return format_time(seconds);
  return fmt::format("{} ({:.0f} x)", format_time(seconds), pair.audio_s / seconds);
}

// A regular expression that matches `text` alone.
std::string literal(const std::string& text) {
  return std::regex_replace(text, std::regex(R"([.^$|()\[\]{}*+?\\])"), R"(\$&)");
}

}  // namespace

PairRunner::PairRunner(std::vector<Pair> pairs, Clock clock)
    : pairs_(std::move(pairs)), clock_(clock) {
  for (const Pair& pair : pairs_) {
    add(pair, "ours");
    add(pair, "theirs");
  }
}

void PairRunner::add(const Pair& pair, const std::string& side) {
  const std::string name = pair.name() + "/" + side;
  benchmark::RegisterBenchmark(name.c_str(),
                               [this, &pair, side](benchmark::State& state) {
                                 const auto [found, is_new] = made_.try_emplace(pair.name());
                                 Sides& sides = found->second;
                                 if (is_new) {
                                   sides = make_sides(pair);
                                 }
                                 const std::function<void()>& work =
                                     side == "ours" ? sides.ours : sides.theirs;
                                 for (auto _ : state) work();
                               })
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->Unit(benchmark::kMicrosecond);
}

// The first call of each side finds its pages and wakes its threads; the peak is that of a second.
Sides PairRunner::make_sides(const Pair& pair) {
  Sides sides = pair.make();
  sides.ours();
  sides.theirs();
  if (!pair.compares_memory) return sides;
  sides.take_peak_bytes();
  sides.ours();
  peaks_[pair.name() + "/ours"] = sides.take_peak_bytes();
  sides.theirs();
  peaks_[pair.name() + "/theirs"] = sides.take_peak_bytes();
  return sides;
}

void PairRunner::run_in_turns(const std::string& filter) {
  size_t name_width = 0;
  for (const Pair& pair : pairs_)
    name_width = std::max(name_width, (pair.name() + "/theirs" + kSuffix + "_median").size());
  MedianReporter reporter(medians_s_, clock_, name_width);
  const std::regex wanted(filter.empty() || filter == "all" ? "." : filter);
  for (const Pair& pair : pairs_) {
    std::string sides;
    for (const char* side : {"ours", "theirs"}) {
      const std::string name = pair.name() + "/" + side + kSuffix;
      if (std::regex_search(name, wanted)) sides += (sides.empty() ? "" : "|") + std::string(side);
    }
    if (sides.empty()) continue;
    benchmark::RunSpecifiedBenchmarks(
        &reporter, fmt::format("^{}/({}){}$", literal(pair.name()), sides, kSuffix));
    made_.clear();
  }
}

void PairRunner::run_at_once() {
  MedianReporter reporter(medians_s_, clock_, 0);
  benchmark::RunSpecifiedBenchmarks(&reporter);
  made_.clear();
}

std::string PairRunner::ratios() const {
  using report::Align;
  report::Table table({{"topic"},
                       {"shape"},
                       {"ours", Align::kRight},
                       {"theirs", Align::kRight},
                       {"theirs/ours", Align::kRight},
                       {"wanted"},
                       {"bar"}});
  bool is_empty = true;
  for (const Pair& pair : pairs_) {
    const auto ours = medians_s_.find(pair.name() + "/ours");
    const auto theirs = medians_s_.find(pair.name() + "/theirs");
    if (ours == medians_s_.end() || theirs == medians_s_.end()) continue;
    is_empty = false;
    const double ratio = theirs->second / ours->second;
    const bool has_bar = pair.at_least > 0.0;
    table.add_row({pair.topic, pair.shape, format_speed(pair, ours->second),
                   format_speed(pair, theirs->second), fmt::format("{:.3f}", ratio),
                   has_bar ? fmt::format("at least {:.2f}", pair.at_least) : "",
                   has_bar ? (ratio >= pair.at_least ? "met" : "missed") : ""});
  }
  return is_empty ? "" : table.to_string(kTableWidth) + memory_ratios();
}

std::string PairRunner::memory_ratios() const {
  using report::Align;
  report::Table table({{"topic"},
                       {"shape"},
                       {"our peak", Align::kRight},
                       {"theirs", Align::kRight},
                       {"theirs/ours", Align::kRight}});
  bool is_empty = true;
  for (const Pair& pair : pairs_) {
    const auto ours = peaks_.find(pair.name() + "/ours");
    const auto theirs = peaks_.find(pair.name() + "/theirs");
    if (ours == peaks_.end() || theirs == peaks_.end()) continue;
    is_empty = false;
    const double ratio = static_cast<double>(theirs->second) / static_cast<double>(ours->second);
    table.add_row({pair.topic, pair.shape, format_mebibytes(ours->second),
                   format_mebibytes(theirs->second), fmt::format("{:.3f}", ratio)});
  }
  return is_empty ? "" : "\n" + table.to_string(kTableWidth);
}

}  // namespace sotto::bench
