// Whole steps: dry = measured, a hard limit that is kept, and failures anywhere that leave nothing
// behind.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>

#include "sotto/core/error.h"
#include "sotto/device/torch_memory.h"
#include "sotto/nn/memory_proof.h"

namespace sotto::nn {
namespace {

using device::Arena;
using device::ArenaGuard;
using device::RegionKind;

TEST(MemoryProof, HoldsForEveryTypeAndWhateverIsKept) {
  const MemoryProofOptions options{.stacks = {"1x16x40", "3x48x200", "2x33x77"}};
  for (const MemoryProofCase& step : cases_of(options)) {
    const MemoryProof proof = prove_memory(step, int64_t{1} << 30);
    EXPECT_TRUE(proof.holds()) << step.name() << ": predicted " << proof.predicted.peak
                               << ", measured " << proof.measured.peak;
    EXPECT_EQ(proof.measured.capacity, proof.predicted.high_water);
    EXPECT_EQ(proof.measured.live, 0);
  }
}

TEST(MemoryProof, RecomputingTakesLess) {
  const std::vector<MemoryProofCase> cases = cases_of({.stacks = {"4x64x300"}, .types = {"fp32"}});
  EXPECT_LT(predict_memory(cases[1]).peak,
            0.7 * static_cast<double>(predict_memory(cases[0]).peak));
}

TEST(MemoryProof, RefusesWhatDoesNotFitBeforeItRuns) {
  const MemoryProofCase step = cases_of({.stacks = {"2x32x100"}}).front();
  const int64_t needed = predict_memory(step).high_water;
  EXPECT_THROW(prove_memory(step, needed - 1), OutOfMemory);
  EXPECT_TRUE(prove_memory(step, needed).holds());
}

// One step of a stack inside an arena, as the memory proof runs it.
void run_step(FeedForwardStack& stack, const kernels::Packing& packing) {
  const at::Tensor x = at::full({packing.num_frames(), stack.options().width}, 0.01);
  stack.forward(x.clone(), packing, 1);
  stack.backward(x.clone(), packing, 1);
}

// Out of memory injected at every reservation of a step: always our error, never a block left
// behind, and afterwards the step gives the same bits as in an undisturbed run.
TEST(Step, SurvivesAFailureAtEveryReservation) {
  const auto arena = std::make_shared<Arena>(RegionKind::kHost, 16 << 20);
  const ArenaGuard guard(at::kCPU, arena);
  FeedForwardStack stack({.num_layers = 2, .width = 16, .hidden = 32, .type = at::kFloat},
                         at::kCPU);
  const kernels::Packing packing({10, 20}, at::kCPU);
  arena->reset_peak();
  run_step(stack, packing);
  const int64_t num_reservations = arena->report().num_reservations;
  const int64_t live = arena->report().live;
  std::vector<at::Tensor> truth;
  for (const Parameter* parameter : stack.parameters())
    truth.push_back(parameter->gradient.clone());
  const int64_t live_with_truth = arena->report().live;
  ASSERT_GT(num_reservations, 20);
  ASSERT_GT(live_with_truth, live);

  for (int64_t n = 1; n <= num_reservations; ++n) {
    stack.zero_gradients();
    arena->inject_failure(n);
    EXPECT_THROW(run_step(stack, packing), OutOfMemory) << "reservation " << n;
    stack.drop_kept();
    ASSERT_EQ(arena->report().live, live_with_truth) << "reservation " << n;
    stack.zero_gradients();
    run_step(stack, packing);
    const std::vector<Parameter*> parameters = stack.parameters();
    for (size_t i = 0; i < truth.size(); ++i)
      ASSERT_TRUE(at::equal(parameters[i]->gradient, truth[i]));
  }
}

// Durations in seconds of a list of LibriSpeech, one a line.
std::vector<double> read_durations(const std::filesystem::path& path) {
  std::vector<double> durations;
  gzFile file = gzopen(path.c_str(), "rb");
  char line[64];
  while (file != nullptr && gzgets(file, line, sizeof(line)) != nullptr)
    durations.push_back(std::strtod(line, nullptr));
  if (file != nullptr) gzclose(file);
  return durations;
}

// Placement waste, on 400 packs of about 120 s out of real LibriSpeech lengths, one after the other
// in one arena: the high-water mark stays within 2 % of the most bytes alive, and does not creep.
TEST(Placement, WastesLittleOnRealLengths) {
  const char* data = std::getenv("SOTTO_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "SOTTO_TEST_DATA names no folder with librispeech_durations";
  const auto path =
      std::filesystem::path(data) / "librispeech_durations" / "train-clean-100.seconds.txt.gz";
  const std::vector<double> durations = read_durations(path);
  ASSERT_EQ(durations.size(), 28'539u) << path;
  const std::vector<int64_t> order = RandomStream({.seed = 1, .purpose = Purpose::kShuffle})
                                         .permutation(static_cast<int64_t>(durations.size()));

  for (const Keep keep : {Keep::kEverything, Keep::kBlockInputs}) {
    const auto arena = std::make_shared<Arena>(RegionKind::kNothing, Arena::kUnlimited);
    const ArenaGuard guard(at::kMeta, arena);
    FeedForwardStack stack({.num_layers = 4, .keep = keep}, at::kMeta);
    size_t next = 0;
    int64_t high_water_halfway = 0;
    for (int pack = 0; pack < 400; ++pack) {
      std::vector<int64_t> lengths;
      for (double seconds = 0.0; seconds < 120.0; ++next) {
        const double duration = durations[static_cast<size_t>(order[next])];
        lengths.push_back(static_cast<int64_t>(duration * 50.0));
        seconds += duration;
      }
      const kernels::Packing packing(lengths, at::kMeta);
      const auto make = [&] {
        return at::empty({packing.num_frames(), 256}, at::TensorOptions().device(at::kMeta));
      };
      stack.forward(make(), packing, 1);
      stack.backward(make(), packing, 1);
      if (pack == 199) high_water_halfway = arena->report().high_water;
    }
    const device::MemoryReport report = arena->report();
    const double waste =
        static_cast<double>(report.high_water) / static_cast<double>(report.peak) - 1.0;
    RecordProperty(keep == Keep::kEverything ? "waste_everything" : "waste_inputs",
                   std::to_string(waste));
    EXPECT_LT(waste, 0.02) << (keep == Keep::kEverything ? "everything kept" : "inputs kept");
    EXPECT_LT(static_cast<double>(report.high_water),
              1.02 * static_cast<double>(high_water_halfway));
  }
}

}  // namespace
}  // namespace sotto::nn
