// A tiny run to plan for a card, in a budget that tests choose.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sotto/core/error.h"
#include "sotto/data/batch/example_list.h"
#include "sotto/models/transformer_ctc/transformer_ctc.h"
#include "sotto/plan/explanation.h"
#include "sotto/plan/ladder.h"
#include "sotto/plan/planner.h"
#include "support/tiny_corpus.h"

namespace sotto::plan {

// Of a card on which products are cheap and kernels are not free.
inline kernels::Rates some_rates(train::Compute compute) {
  const bool is_half = compute == train::Compute::kBf16 || compute == train::Compute::kFp16;
  const double products = is_half ? 8e11 : 1e11;
  kernels::Rates rates{.bytes_per_s = 1e11, .link_bytes_per_s = 1e10, .launch_seconds = 1e-6};
  rates.flops_per_s.fill(products);
  rates.seconds_per_call.fill(1e-6);
  return rates;
}

inline const device::Target kCard{
    .processor = device::Processor::kCuda, .capability = 86, .num_sms = 46};

class PlannerTest : public ::testing::Test {
 protected:
  PlannerTest() : source_(test::tiny_examples(64, 1), lengths(64)) {
    request_ = {.config = test::tiny_config(),
                .open = {},
                .shape = test::kTinyShape,
                .target = kCard,
                .budget = {.bytes = int64_t{1} << 30},
                .rates = some_rates};
    request_.config.model.as<models::TransformerCtcOptions>().layers = 4;
    request_.config.effective_batch.utterances = 16;
    request_.config.precision.small_below = 64;
  }

  static std::vector<float> lengths(int64_t count) {
    std::vector<float> lengths;
    for (const data::Example& example : test::tiny_examples(count, 1))
      lengths.push_back(static_cast<float>(example.rows) / 100.0f);
    return lengths;
  }

  Plan plan() const { return Planner(request_, source_).plan(); }
  Plan plan_in(int64_t bytes) {
    request_.budget.bytes = bytes;
    return plan();
  }
  std::string why(const std::string& key) const {
    for (const Reason& reason : reasons_of(plan(), request_))
      if (reason.key == key) return reason.why;
    return "";
  }
  static int64_t bytes_as_it_is(const PlanRequest& request, const data::Source& source) {
    return least_of(request, source, PlannedEpoch(request.config, source)).value().high_water;
  }
  // Of a configuration in which nothing is open but how steps are split.
  static std::vector<Rung> ladder_of(PlanRequest request, const data::Source& source) {
    const bool max_frames = request.open.max_frames;
    request.open = OpenChoices::none();
    request.open.max_frames = max_frames;
    return make_ladder(request, source, PlannedEpoch(request.config, source),
                       bytes_as_it_is(request, source));
  }
  int64_t longest_frames() const {
    const auto network = request_.config.model.make(request_.shape, {.device = at::kMeta});
    int64_t most = 0;
    for (const data::Example& example : source_.examples())
      most = std::max(most, network->size_of(data::size_of(example)).frames);
    return most;
  }
  // The smallest budget that is not refused.
  int64_t least() {
    int64_t bad = 0, good = int64_t{1} << 30;
    while (good - bad > 256) {
      const int64_t middle = (good + bad) / 2;
      try {
        plan_in(middle);
        good = middle;
      } catch (const ConfigError&) {
        bad = middle;
      }
    }
    return good;
  }

  data::ExampleList source_;
  PlanRequest request_;
};

}  // namespace sotto::plan
