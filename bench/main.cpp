// sotto_bench: our speed beside ATen's. Without flags all pairs, in two to three minutes; with
// --benchmark_filter=gemm some of them. Every flag of Google Benchmark works. One is ours:
// --cpu_time compares time on the processor instead of time on the clock, for a machine that is not
// idle.
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "topics.h"

namespace {

// Before the user's flags, which therefore win.
constexpr const char* kDefaults[] = {"--benchmark_repetitions=21", "--benchmark_min_time=0.015",
                                     "--benchmark_enable_random_interleaving=true",
                                     "--benchmark_report_aggregates_only=true"};

// Flags whose result is one list or one file: they want a single run.
bool wants_single_run(std::string_view argument) {
  for (const std::string_view flag :
       {"--benchmark_out", "--benchmark_format", "--benchmark_list_tests"}) {
    if (argument.starts_with(flag)) return true;
  }
  return false;
}

std::vector<sotto::bench::Pair> all_pairs() {
  std::vector<sotto::bench::Pair> all;
  for (const auto topic :
       {sotto::bench::gemm_pairs, sotto::bench::layer_norm_pairs, sotto::bench::arena_pairs,
        sotto::bench::elementwise_pairs, sotto::bench::attention_pairs,
        sotto::bench::cross_entropy_pairs, sotto::bench::utterance_pairs,
        sotto::bench::grouped_convolution_pairs, sotto::bench::image_subsampling_pairs,
        sotto::bench::depthwise_convolution_pairs, sotto::bench::log_mel_pairs,
        sotto::bench::optimizer_pairs}) {
    for (sotto::bench::Pair& pair : topic()) all.push_back(std::move(pair));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments = {argv[0]};
  arguments.insert(arguments.end(), std::begin(kDefaults), std::end(kDefaults));
  bool at_once = false;
  auto clock = sotto::bench::Clock::kWall;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--cpu_time") {
      clock = sotto::bench::Clock::kProcessor;
      continue;
    }
    at_once = at_once || wants_single_run(argv[i]);
    arguments.emplace_back(argv[i]);
  }
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 2;

  sotto::bench::PairRunner runner(all_pairs(), clock);
  if (at_once) {
    runner.run_at_once();
  } else {
    runner.run_in_turns(benchmark::GetBenchmarkFilter());
  }
  // Beside a JSON or CSV text the table must not stand on the same stream.
  std::fputs(("\n" + runner.ratios()).c_str(), at_once ? stderr : stdout);
  benchmark::Shutdown();
  return 0;
}
