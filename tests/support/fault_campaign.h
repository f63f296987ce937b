// Trials of whole runs that something happens to, drawn by a seed: kills, signals, full disks,
// second processes, changed worlds, and calls of the system that fail. Whatever happens, the run
// ends in a defined way, and a resume ends with the weights of a run that was left alone.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "sotto/core/rng.h"
#include "support/faults.h"
#include "support/small_disk.h"
#include "support/train_runs.h"

namespace sotto::test {

class FaultCampaign : public TrainRuns {
 protected:
  static constexpr int64_t kSteps = 24;

  // Runs `count` trials of each kind in turn; returns what went wrong, a line for each.
  std::vector<std::string> run_trials(int64_t count, uint64_t seed) {
    const RandomStream stream({.seed = seed});
    EXPECT_EQ(train("whole", settings()).exit_code, 0);
    whole_ = weights("whole", kSteps);
    EXPECT_FALSE(whole_.empty());
    const std::vector<std::pair<const char*, void (FaultCampaign::*)()>> kinds = {
        {"kill", &FaultCampaign::kill_it},
        {"signal", &FaultCampaign::signal_it},
        {"full disk", &FaultCampaign::fill_the_disk},
        {"second process", &FaultCampaign::start_a_second},
        {"changed world", &FaultCampaign::change_the_world},
        {"open", &FaultCampaign::fail_open},
        {"write", &FaultCampaign::fail_write},
        {"fsync", &FaultCampaign::fail_fsync},
        {"rename", &FaultCampaign::fail_rename},
        {"malloc", &FaultCampaign::fail_malloc}};
    for (trial_ = 0; trial_ < count; ++trial_) {
      const auto& [name, run_kind] = kinds[static_cast<size_t>(trial_) % kinds.size()];
      draws_ = 0;
      stream_ = &stream;
      happened_ = name;
      out_ = "trial-" + std::to_string(trial_);
      (this->*run_kind)();
      finish();
      ++num_of_kind_[name];
      std::error_code ignored;
      std::filesystem::remove_all(run(out_), ignored);
    }
    for (const auto& [name, number] : num_of_kind_)
      std::printf("%-16s %ld trials\n", name.c_str(), static_cast<long>(number));
    return failures_;
  }

 private:
  // The mean difference between values of two files of fp32 weights; infinity where they differ in
  // anything else. Single weights may differ by as much as AdamW moves them: a gradient that is 0
  // but for rounding is as good as any to it.
  static double mean_difference(const std::string& a, const std::string& b) {
    constexpr size_t kSizeBytes = 8;
    uint64_t header = 0;
    if (a.size() != b.size() || a.size() < kSizeBytes) return INFINITY;
    std::memcpy(&header, a.data(), kSizeBytes);
    const size_t begin = kSizeBytes + header;
    if (begin > a.size() || a.substr(0, begin) != b.substr(0, begin)) return INFINITY;
    double sum = 0.0;
    int64_t count = 0;
    for (size_t at = begin; at + sizeof(float) <= a.size(); at += sizeof(float)) {
      float of_a = 0.0f, of_b = 0.0f;
      std::memcpy(&of_a, a.data() + at, sizeof(float));
      std::memcpy(&of_b, b.data() + at, sizeof(float));
      sum += std::abs(static_cast<double>(of_a) - static_cast<double>(of_b));
      ++count;
    }
    return count > 0 ? sum / static_cast<double>(count) : 0.0;
  }

  static std::vector<std::string> settings() {
    return {"--set", "epochs=4",         "--set",   "checkpoint_every=2",
            "--set", "evaluate_every=3", "--resume"};
  }

  // A whole number from 0 to below `end`.
  int64_t draw(int64_t end) {
    const auto index = static_cast<uint64_t>(trial_) * 64 + draws_++;
    return std::min(end - 1,
                    static_cast<int64_t>(stream_->uniform(index) * static_cast<float>(end)));
  }

  void expect(bool is_so, const std::string& text) {
    if (!is_so)
      failures_.push_back("trial " + std::to_string(trial_) + ", " + happened_ + ": " + text);
  }

  static std::string describe(const CommandResult& result) {
    return "exit code " + std::to_string(result.exit_code) + ", " + result.err;
  }

  // Nothing happens any more: the run is resumed to its end.
  void finish() {
    const CommandResult result = train(out_, settings());
    expect(result.exit_code == 0, "the resume: " + describe(result));
    const std::string at_end = weights(out_, kSteps);
    if (at_end == whole_) return;
    // A library that gets no memory may multiply in another order: then sums round differently.
    const double difference = mean_difference(at_end, whole_);
    if (happened_.starts_with("SOTTO_MALLOC_FAULT") && difference < 2e-4) {
      std::printf("trial %ld, %s: weights differ by %g on average\n", static_cast<long>(trial_),
                  happened_.c_str(), difference);
      return;
    }
    expect(false, fmt::format("other weights at the end, by {:g} on average", difference));
  }

  void signal_at_a_line(int signal) {
    const int64_t lines = draw(kSteps);
    const auto wait = std::chrono::microseconds(draw(30'000));
    const int code = run_sotto_and_signal(words(out_, settings()), signal, [&] {
      if (num_lines(out_) <= lines) return false;
      std::this_thread::sleep_for(wait);
      return true;
    });
    expect(code == 0 || code == -signal, "ended with " + std::to_string(code));
  }
  void kill_it() { signal_at_a_line(SIGKILL); }
  void signal_it() {
    constexpr std::array kSignals = {SIGTERM, SIGINT, SIGHUP};
    signal_at_a_line(kSignals[static_cast<size_t>(draw(3))]);
  }

  void fill_the_disk() {
    const SmallDisk disk(run(out_), int64_t{4} << 20);
    if (!disk.is_mounted()) {
      happened_ = "full disk (not mounted: a kill)";
      return kill_it();
    }
    const std::string inner = out_ + "/run";
    disk.fill(draw(int64_t{400} << 10));
    const CommandResult result = train(inner, settings());
    expect(result.exit_code == 0 || result.exit_code == 2, describe(result));
    disk.make_room();
    const CommandResult again = train(inner, settings());
    expect(again.exit_code == 0, "with room again: " + describe(again));
    expect(weights(inner, kSteps) == whole_, "other weights on the disk");
  }

  void start_a_second() {
    const int64_t lines = 1 + draw(kSteps / 2);
    bool has_started = false;
    const int code = run_sotto_and_signal(words(out_, settings()), SIGCONT, [&] {
      if (num_lines(out_) <= lines) return false;
      const CommandResult second = train(out_, settings());
      has_started = true;
      // Refused, or the first was at its end already.
      expect(second.exit_code == 2 || second.exit_code == 0, "the second: " + describe(second));
      return true;
    });
    expect(code == 0, "the first ended with " + std::to_string(code));
    expect(has_started || num_lines(out_) > 0, "no second process was started");
  }

  void change_the_world() {
    signal_at_a_line(SIGTERM);
    const std::string before = content_of(run(out_) / "config.yaml");
    const std::vector<std::string> changes = {"seed=9",
                                              "model.heads=4",
                                              "reduction=sum",
                                              "model.activation=relu",
                                              "effective_batch=4",
                                              "data.text.case=upper"};
    std::vector<std::string> other = settings();
    other.insert(other.end(), {"--set", changes[static_cast<size_t>(draw(6))]});
    const CommandResult refused = train(out_, other);
    expect(refused.exit_code == 2, "with " + other.back() + ": " + describe(refused));
    expect(content_of(run(out_) / "config.yaml") == before, "config.yaml was changed");
  }

  void run_with(const std::vector<std::string>& environment) {
    const CommandResult result = train(out_, settings(), environment);
    expect(result.exit_code == 0 || result.exit_code == 2 || result.exit_code == 3,
           describe(result));
  }
  void fail(const char* call, int64_t most, int error) {
    const std::string rule =
        fmt::format("{}:{}:{}/:{}", call, error, run(out_).string(), 1 + draw(most));
    happened_ = rule;
    run_with(with_faults(rule));
  }
  int any_errno() {
    constexpr std::array kErrors = {EIO, ENOSPC, EACCES, EROFS};
    return kErrors[static_cast<size_t>(draw(std::ssize(kErrors)))];
  }
  void fail_open() { fail("open", 60, any_errno()); }
  void fail_write() { fail("write", 300, any_errno()); }
  void fail_fsync() { fail("fsync", 120, draw(2) == 0 ? EIO : ENOSPC); }
  void fail_rename() { fail("rename", 40, any_errno()); }
  void fail_malloc() {
    const std::string fault = fmt::format("{}:{}", 1 + draw(2'000), draw(2) == 0 ? 4'096 : 65'536);
    happened_ = "SOTTO_MALLOC_FAULT=" + fault;
    std::vector<std::string> environment = with_faults("");
    environment.push_back(happened_);
    run_with(environment);
  }

  std::string whole_, out_, happened_;
  int64_t trial_ = 0;
  uint64_t draws_ = 0;
  const RandomStream* stream_ = nullptr;
  std::vector<std::string> failures_;
  std::map<std::string, int64_t> num_of_kind_;
};

}  // namespace sotto::test
