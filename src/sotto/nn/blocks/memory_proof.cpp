#include "sotto/nn/blocks/memory_proof.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <memory>
#include <numeric>

#include "sotto/core/error.h"
#include "sotto/core/rng.h"
#include "sotto/device/torch_memory.h"
#include "sotto/nn/blocks/transformer_stack.h"

namespace sotto::nn {

namespace {

using device::Arena;
using device::Category;
using device::CategoryScope;

// Runs one step, the same on every device: set-up, forward, backward.
void run_step(const MemoryProofCase& step, const at::Device& device) {
  ParameterStore store;
  const TransformerStack stack(store, "blocks", {.block = step.blocks});
  // Every matrix has the type to prove, however small.
  store.allocate({.device = device, .weights = step.type, .small_below = 1, .seed = step.seed});
  const kernels::Packing packing(step.lengths, device);
  const auto type = at::TensorOptions().dtype(step.type).device(device);
  const auto make_data = [&] {
    const CategoryScope category(Category::kData);
    at::Tensor data = at::empty({packing.num_frames(), step.blocks.width}, type);
    if (!device.is_meta()) data.fill_(0.01);
    return data;
  };
  device::HostMemory host(device.type());
  HostTape on_host(host);
  Tape tape(std::vector<Tier>(static_cast<size_t>(step.blocks.num_layers), step.tier), &on_host);
  const Context context{.step = {.seed = step.seed, .step = 1}, .packing = packing};
  stack.forward(make_data(), context, tape);
  stack.backward(make_data(), context, tape);
}

struct Observed {
  device::MemoryReport report;
  double seconds = 0.0;
};

Observed observe(const MemoryProofCase& step, const at::Device& device, int64_t capacity_bytes) {
  const auto kind = device.is_meta() ? device::RegionKind::kNothing : device::RegionKind::kHost;
  const auto arena = std::make_shared<Arena>(kind, capacity_bytes);
  const auto start = std::chrono::steady_clock::now();
  {
    const device::ArenaGuard guard(device.type(), arena);
    run_step(step, device);
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return {arena->report(), elapsed.count()};
}

constexpr std::array kTypes = {Named{"fp32", at::kFloat}, Named{"bf16", at::kBFloat16},
                               Named{"fp16", at::kHalf}};

struct StackSize {
  int64_t layers = 0;
  int64_t width = 0;
  int64_t frames = 0;
};

StackSize parse_stack(const std::string& text) {
  StackSize size;
  int used = 0;
  // NOLINTNEXTLINE(bugprone-unchecked-string-to-number-conversion): the widths keep it in range
  const int found = std::sscanf(text.c_str(), "%4" SCNd64 "x%5" SCNd64 "x%7" SCNd64 "%n",
                                &size.layers, &size.width, &size.frames, &used);
  const bool whole = found == 3 && static_cast<size_t>(used) == text.size();
  if (!whole || size.layers < 1 || size.width < 1 || size.frames < 1) {
    throw ConfigError({.attempted = "reading the stacks to prove",
                       .found = fmt::format("'{}'", text),
                       .expected = "layers x width x frames, such as 4x256x1000"});
  }
  return size;
}

// Draws utterances of 40 to 800 frames that fill the pack: as uneven as speech.
std::vector<int64_t> draw_lengths(int64_t frames, int64_t seed) {
  const RandomStream stream({.seed = static_cast<uint64_t>(seed), .purpose = Purpose::kShuffle});
  std::vector<int64_t> lengths;
  for (uint64_t n = 0; frames > 0; ++n) {
    const auto length = static_cast<int64_t>(40 + 760 * stream.uniform(n));
    lengths.push_back(std::min(length, frames));
    frames -= lengths.back();
  }
  return lengths;
}

// Returns heads of width 64 where the width allows, else one head.
int64_t heads_of(int64_t width) {
  return width % 64 == 0 ? width / 64 : 1;
}

}  // namespace

bool MemoryProof::holds() const {
  const bool within_bounds =
      std::all_of(measured.library_calls.begin(), measured.library_calls.end(),
                  [](const device::LibraryUse& use) { return use.num_breaches == 0; });
  return within_bounds && predicted.peak == measured.peak &&
         predicted.at_peak == measured.at_peak && predicted.peak_moment == measured.peak_moment &&
         predicted.high_water == measured.high_water &&
         predicted.num_reservations == measured.num_reservations;
}

void MemoryProofOptions::visit(OptionVisitor& visitor) {
  visitor.value("stacks", stacks, "stacks to test, each as layers x width x frames");
  visitor.choice("types", types, "data types of activations and matrices",
                 {"fp32", "bf16", "fp16"});
  visitor.choice("tiers", tiers, "tensors kept for backward",
                 {"none", "norms", "ffn", "qkv", "block", "host"});
  visitor.value("hidden_factor", hidden_factor,
                "feed-forward width as a multiple of the stack's width", {.min = 1, .max = 64});
  visitor.value("dropout", dropout, "dropout probability", {.min = 0, .below = 1});
  visitor.value("seed", seed, "random seed of weights, dropout and lengths", {.min = 0});
  visitor.value("memory", memory, "memory budget; a percentage is of free memory");
}

void MemoryProofOptions::validate() const {
  for (const std::string& stack : stacks) parse_stack(stack);
}

std::vector<MemoryProofCase> cases_of(const MemoryProofOptions& options) {
  std::vector<MemoryProofCase> cases;
  for (const std::string& text : options.stacks) {
    const StackSize size = parse_stack(text);
    for (const std::string& type : options.types) {
      for (const std::string& tier : options.tiers) {
        cases.push_back({.blocks = {.width = size.width,
                                    .hidden = size.width * options.hidden_factor,
                                    .attention = {.num_heads = heads_of(size.width)},
                                    .dropout = options.dropout,
                                    .activation_dropout = options.dropout,
                                    .num_layers = size.layers},
                         .type = value_of(type, kTypes),
                         .tier = value_of(tier, kTiers),
                         .seed = static_cast<uint64_t>(options.seed),
                         .lengths = draw_lengths(size.frames, options.seed)});
      }
    }
  }
  return cases;
}

std::string MemoryProofCase::stack_name() const {
  const int64_t frames = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  return fmt::format("{}x{}x{}", blocks.num_layers, blocks.width, frames);
}

std::string MemoryProofCase::type_name() const {
  return std::string(name_of(type, kTypes));
}

std::string MemoryProofCase::tier_name() const {
  return std::string(name_of(tier, kTiers));
}

std::string MemoryProofCase::name() const {
  return fmt::format("{} {} tier {}", stack_name(), type_name(), tier_name());
}

device::MemoryReport predict_memory(const MemoryProofCase& step) {
  return observe(step, at::kMeta, Arena::kUnlimited).report;
}

MemoryProof prove_memory(const MemoryProofCase& step, int64_t budget_bytes) {
  const Observed dry = observe(step, at::kMeta, Arena::kUnlimited);
  const int64_t needed = dry.report.high_water;
  if (needed > budget_bytes) {
    throw OutOfMemory(
        {.attempted = fmt::format("proving the memory of {}", step.name()),
         .found = fmt::format("the step needs {}", format_bytes(needed)),
         .expected = fmt::format("at most the budget of {}", format_bytes(budget_bytes)),
         .hint = fmt::format("--memory {}B would do.", needed)});
  }
  const Observed real = observe(step, at::kCPU, needed);
  return {.predicted = dry.report,
          .measured = real.report,
          .dry_seconds = dry.seconds,
          .real_seconds = real.seconds};
}

}  // namespace sotto::nn
