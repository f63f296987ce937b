// The transducer loss on a GPU against the CPU: lattices larger than those of the kernel table, and
// what must not depend on the order of threads.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/gpu.h"
#include "support/tolerance.h"
#include "support/transducer_reference.h"

namespace sotto::test {
namespace {

TransducerInputs on_gpu(const TransducerInputs& in, at::ScalarType type) {
  return {.encoder = in.encoder.to(type).cuda(),
          .prediction = in.prediction.to(type).cuda(),
          .weight = in.weight.to(type).cuda(),
          .bias = in.bias.cuda()};
}

// More labels than a block has threads, many frames, and short lattices between them.
TransducerProblem draw(const std::vector<int64_t>& durations) {
  return draw_transducer(
      {.frames = {40, 3, 900, 1, 200},
       .weights = {1.0f, 0.5f, 0.25f, 2.0f, 1.0f},
       .durations = durations,
       .blank = 1,
       .sigma = durations.empty() ? 0.0 : 0.02,
       .dropout = {.key = {.seed = 3, .purpose = Purpose::kDropout}, .probability = 0.2}},
      {700, 0, 60, 4, 30}, {.width = 64, .entries = 60});
}

const std::vector<std::vector<int64_t>> kKinds = {{}, {0, 1, 2, 3, 4}};

TEST(CudaTransducer, AgreesWithTheCpuOnLargeLattices) {
  SOTTO_SKIP_WITHOUT_GPU();
  for (const std::vector<int64_t>& durations : kKinds) {
    const TransducerProblem problem = draw(durations);
    const TransducerResults truth = run_transducer(problem.pack, problem.inputs, 4'096);
    const TransducerInputs inputs = on_gpu(problem.inputs, at::kFloat);
    for (const int64_t nodes : {512, 4'096}) {
      const TransducerResults ours = run_transducer(problem.pack, inputs, nodes);
      EXPECT_LE(loss_error(ours.loss, truth.loss), kLongLatticeTolerance);
      EXPECT_LE(relative_error(ours.d_encoder, truth.d_encoder), kLongLatticeTolerance);
      EXPECT_LE(relative_error(ours.d_prediction, truth.d_prediction), kLongLatticeTolerance);
      EXPECT_LE(relative_error(ours.grad_weight, truth.grad_weight), kLongLatticeTolerance);
      EXPECT_LE(relative_error(ours.grad_bias, truth.grad_bias), kLongLatticeTolerance);
    }
  }
}

TEST(CudaTransducer, GivesTheSameBitsEachTime) {
  SOTTO_SKIP_WITHOUT_GPU();
  for (const std::vector<int64_t>& durations : kKinds) {
    const TransducerProblem problem = draw(durations);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kHalf}) {
      const TransducerInputs inputs = on_gpu(problem.inputs, type);
      const TransducerResults once = run_transducer(problem.pack, inputs, 1'024);
      const TransducerResults again = run_transducer(problem.pack, inputs, 1'024);
      EXPECT_TRUE(at::equal(once.loss, again.loss));
      EXPECT_TRUE(at::equal(once.d_encoder, again.d_encoder));
      EXPECT_TRUE(at::equal(once.d_prediction, again.d_prediction));
      EXPECT_TRUE(at::equal(once.loss, evaluate_transducer(problem.pack, inputs, 1'024)));
    }
  }
}

}  // namespace
}  // namespace sotto::test
