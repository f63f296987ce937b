// gpu_kernel_bench: bytes a second of the kernels that bytes limit, beside a copy of the device's
// own memory. Bytes are those that each kernel reports as its cost: every operand once.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <functional>
#include <string>
#include <vector>

#include "../program.h"
#include "sotto/device/run_device.h"
#include "sotto/device/torch_memory.h"
#include "sotto/kernels/base/cost.h"
#include "sotto/kernels/elementwise/activation.h"
#include "sotto/kernels/elementwise/column_sum.h"
#include "sotto/kernels/elementwise/dropout.h"
#include "sotto/kernels/elementwise/residual_add.h"
#include "sotto/kernels/norm/layer_norm.h"
#include "sotto/kernels/optimizer/adamw.h"
#include "sotto/kernels/optimizer/moment_map.h"
#include "sotto/kernels/optimizer/square_sum.h"
#include "sotto/report/table.h"
#include "timing.h"

namespace {

using namespace sotto;           // NOLINT: a program of one file
using namespace sotto::kernels;  // NOLINT

// Of one call among many, so that launching is hidden.
double seconds_of(const std::function<void()>& call) {
  return bench::seconds_of(call, 20);
}

class Bench {
 public:
  Bench()
      : table_(
            {{"kernel"}, {"GB/s", report::Align::kRight}, {"of a copy", report::Align::kRight}}) {
    const int64_t bytes = int64_t{2} << 30;
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kByte);
    const at::Tensor from = at::ones({bytes}, options);
    at::Tensor to = at::empty({bytes}, options);
    copy_ = 2.0 * static_cast<double>(bytes) / seconds_of([&] { to.copy_(from); });
    table_.add_row({"copy", fmt::format("{:.0f}", copy_ / 1e9), "100 %"});
  }

  void add(const std::string& name, const std::function<void()>& call) {
    double bytes = 0.0;
    {
      const CostRecorder recorder;
      call();
      bytes = recorder.total().total.bytes;
    }
    const double rate = bytes / seconds_of(call);
    table_.add_row(
        {name, fmt::format("{:.0f}", rate / 1e9), fmt::format("{:.0f} %", 100.0 * rate / copy_)});
  }

  std::string to_string() const { return table_.to_string(); }

 private:
  report::Table table_;
  double copy_ = 0.0;
};

struct Form {
  const char* name;
  at::ScalarType weights;
  int remainder_bits;
  at::ScalarType gradients;
  bool has_codes;
};

// In all forms that numerics can have, and some that only their parts make.
void add_adamw(Bench& bench, const Form& form) {
  constexpr int64_t kSize = 300'000'000;
  const auto floats = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  at::Tensor weights = at::randn({kSize}, floats).to(form.weights);
  const at::Tensor gradients = at::randn({kSize}, floats).mul_(1e-3).to(form.gradients);
  at::Tensor remainder, first_scales, second_scales;
  if (form.remainder_bits > 0)
    remainder = at::zeros({kSize}, floats.dtype(form.remainder_bits == 8 ? at::kByte : at::kShort));
  const auto moments = floats.dtype(form.has_codes ? at::kByte : at::kFloat);
  at::Tensor first = at::zeros({kSize}, moments), second = at::zeros({kSize}, moments);
  if (form.has_codes) {
    first_scales = at::zeros({num_moment_blocks(kSize)}, floats);
    second_scales = at::zeros({num_moment_blocks(kSize)}, floats);
  }
  const at::Tensor total = at::ones({1}, floats.dtype(at::kDouble));
  const auto pointer = [](at::Tensor& tensor) { return tensor.defined() ? &tensor : nullptr; };
  bench.add(fmt::format("AdamW {}, 300 million", form.name), [&] {
    AdamW::update({.weights = weights,
                   .remainder = pointer(remainder),
                   .gradients = gradients,
                   .first_moment = first,
                   .second_moment = second,
                   .first_scales = pointer(first_scales),
                   .second_scales = pointer(second_scales)},
                  {.rate = 1e-4}, total);
  });
}

void add_optimizer(Bench& bench) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const auto options = at::TensorOptions().device(at::kCUDA).dtype(type);
    const at::Tensor gradients = at::full({300'000'000}, 1e-3, options);
    at::Tensor total = at::zeros({1}, options.dtype(at::kDouble));
    bench.add(fmt::format("SquareSum {}, 300 million", type == at::kFloat ? "fp32" : "bf16"),
              [&] { SquareSum::accumulate(total, gradients); });
  }
  for (const Form& form :
       {Form{"fp32", at::kFloat, 0, at::kFloat, false},
        {"fp32, 8-bit moments", at::kFloat, 0, at::kFloat, true},
        {"bf16 + 16", at::kBFloat16, 16, at::kFloat, false},
        {"bf16 + 16, 8-bit moments", at::kBFloat16, 16, at::kFloat, true},
        {"bf16 + 8", at::kBFloat16, 8, at::kFloat, false},
        {"bf16 + 8, 8-bit moments", at::kBFloat16, 8, at::kFloat, true},
        {"bf16 + 8, bf16 gradients, 8-bit moments", at::kBFloat16, 8, at::kBFloat16, true},
        {"bf16", at::kBFloat16, 0, at::kFloat, false},
        {"bf16, bf16 gradients, 8-bit moments", at::kBFloat16, 0, at::kBFloat16, true}})
    add_adamw(bench, form);
}

void add_rows(Bench& bench, int64_t width) {
  constexpr int64_t kRows = 20'000;
  const Packing packing(std::vector<int64_t>(32, kRows / 32), at::kCUDA);
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kBFloat16);
  const at::Tensor x = at::randn({kRows, width}, options);
  at::Tensor y = at::randn({kRows, width}, options);
  const at::Tensor gamma = at::ones({width}, options.dtype(at::kFloat));
  at::Tensor sum = at::zeros({width}, options.dtype(at::kFloat));
  at::Tensor sum2 = at::zeros({width}, options.dtype(at::kFloat));
  const Dropout::Mask mask{.key = {.seed = 1, .purpose = Purpose::kDropout}, .probability = 0.1};
  const Dropped dropped{.packing = packing, .mask = mask};
  const auto name = [&](const char* kernel) { return fmt::format("{}, width {}", kernel, width); };
  const LayerNorm::Result result = LayerNorm::forward(x, {.gamma = gamma, .beta = gamma});
  bench.add(name("LayerNorm forward"),
            [&] { LayerNorm::forward(x, {.gamma = gamma, .beta = gamma}); });
  bench.add(name("LayerNorm backward with residual"), [&] {
    LayerNorm::backward(
        {.dy = y, .x = x, .mean = result.mean, .rstd = result.rstd, .gamma = gamma, .residual = &x},
        {.gamma = sum, .beta = sum2});
  });
  bench.add(name("Gelu with dropout"), [&] { Gelu::forward(x, &dropped); });
  bench.add(name("Gelu backward with dropout"), [&] { Gelu::backward(y, x, &dropped); });
  bench.add(name("Gelu"), [&] { Gelu::forward(x); });
  bench.add(name("Dropout"), [&] { Dropout::applied(x, packing, mask); });
  bench.add(name("ResidualAdd with dropout"),
            [&] { ResidualAdd::accumulate_dropped(y, x, packing, mask); });
  bench.add(name("ColumnSum"), [&] { ColumnSum::accumulate(sum, x); });
}

}  // namespace

int main() {
  return sotto::bench::report_errors("gpu_kernel_bench", [] {
    const device::RunDevice device = device::open_device("cuda");
    // Blocks of an arena, as in a run: straight from the driver they would be timed too.
    const auto arena =
        std::make_shared<device::Arena>(device::RegionKind::kCuda, int64_t{24} << 30);
    const device::ArenaGuard guard(at::kCUDA, arena);
    const device::TargetScope target(device.target);
    Bench bench;
    add_optimizer(bench);
    for (const int64_t width : {1024, 1280, 4096, 5120}) add_rows(bench, width);
    fmt::print("{}\n{}", device.name, bench.to_string());
    return 0;
  });
}
