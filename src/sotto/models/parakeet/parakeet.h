// The network `parakeet`: a FastConformer encoder over log-mel features, with a CTC or a transducer
// head.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sotto/models/model.h"
#include "sotto/models/parakeet/parakeet_options.h"
#include "sotto/models/parts/conformer_encoder.h"
#include "sotto/nn/heads/ctc_head.h"
#include "sotto/nn/heads/transducer_head.h"

namespace sotto::models {

class Parakeet : public Model {
 public:
  // Declares and allocates all parameters; on Meta they have no storage. `compute`: the type of
  // activations.
  Parakeet(const ParakeetOptions& options, const DataShape& shape,
           const nn::ParameterAllocation& allocation, at::ScalarType compute = at::kFloat);

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override;
  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override;
  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override;
  Recognition recognise(const data::MicroBatch& batch) override;
  // Under the names of Hugging Face folders.
  std::vector<NamedTensor> named_weights() override;

 private:
  // Layers are numbered in this order: blocks, front end, head; of a transducer the LSTM layers,
  // then the rest.
  int64_t head_layer() const { return options_.layers + 1; }
  nn::TransducerHeadOptions transducer_options(const DataShape& shape,
                                               at::ScalarType compute) const;

  ParakeetOptions options_;
  nn::ParameterStore store_;
  ConformerEncoder encoder_;
  // One of them.
  std::optional<nn::CtcHead> ctc_;
  std::optional<nn::TransducerHead> transducer_;
};

}  // namespace sotto::models
