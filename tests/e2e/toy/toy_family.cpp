// A family in one file, as docs/adding_a_model.md tells it: an encoder over stored features with a
// CTC head and, beside it, an attention decoder.
#include <memory>
#include <utility>

#include "sotto/kernels/elementwise/cast.h"
#include "sotto/models/families.h"
#include "sotto/models/parts/attention_scorer.h"
#include "sotto/models/parts/ctc_results.h"
#include "sotto/models/reduction.h"
#include "sotto/nn/fronts/subsampling.h"
#include "sotto/nn/heads/attention_decoder.h"
#include "sotto/nn/heads/ctc_head.h"
#include "toy_family.h"

namespace sotto::models {
namespace {

using nn::Context;

struct ToyOptions {
  int64_t layers = 2;
  int64_t decoder_layers = 2;
  int64_t width = 32;
  // Share of CTC in the loss.
  double ctc_weight = 0.3;

  void visit(OptionVisitor& visitor) {
    visitor.value("layers", layers, "blocks of the encoder", {.min = 1, .max = 100});
    visitor.value("decoder_layers", decoder_layers, "blocks of the decoder",
                  {.min = 1, .max = 100});
    visitor.value("width", width, "width of both, in multiples of 2", {.min = 2, .max = 256});
    visitor.value("ctc_weight", ctc_weight, "share of CTC in the loss", {.min = 0, .max = 1});
  }

  // Layers are numbered in this order: blocks of the encoder, front end, CTC head, decoder.
  int64_t ctc_layer() const { return layers + 1; }
};

Outline toy_outline(const ToyOptions& options, const DataShape& shape) {
  const auto blank = static_cast<int32_t>(shape.blank);
  Outline outline{.layers = {},
                  .loss_terms = {{.name = "ctc", .weight = options.ctc_weight},
                                 {.name = "attention", .weight = 1.0 - options.ctc_weight}},
                  .scores_frames = true,
                  .decoder = data::DecoderTokens{.start = blank, .end = blank}};
  outline.add(
      {.prefix = "encoder", .num_blocks = options.layers, .others = {"subsampling", "ctc"}});
  outline.add({.prefix = "decoder.layers",
               .num_blocks = options.decoder_layers,
               .others = {"decoder.head"}});
  return outline;
}

class Toy : public Model {
 public:
  Toy(const ToyOptions& options, const DataShape& shape, const nn::ParameterAllocation& allocation,
      at::ScalarType compute)
      : Model(toy_outline(options, shape)),
        options_(options),
        compute_(compute),
        front_(store_, "subsampling",
               {.factor = 2, .num_features = shape.feature_dim, .width = options.width}),
        encoder_(store_, "encoder",
                 {.block = {.width = options.width,
                            .hidden = 2 * options.width,
                            .num_layers = options.layers}}),
        ctc_(store_, "ctc",
             {.width = options.width, .vocabulary = shape.vocabulary, .blank = shape.blank}),
        decoder_(store_, "decoder",
                 {.vocabulary = shape.vocabulary,
                  .layers = options.decoder_layers,
                  .width = options.width,
                  .hidden = 2 * options.width,
                  .seen_width = options.width,
                  .first_layer = options.ctc_layer() + 1,
                  .compute = compute}) {
    store_.allocate(allocation);
  }

  nn::ParameterStore& parameters() override { return store_; }
  data::ItemSize size_of(const data::ExampleSize& item) const override {
    return {.frames = front_.num_frames(item.rows), .labels = item.labels};
  }

  Losses forward(const data::MicroBatch& batch, const nn::StepContext& step,
                 std::span<const float> weights, nn::Tape& tape) override {
    tape.shared().put(encode(batch, step, tape));
    const std::vector<float> ctc_weights = scaled(weights, options_.ctc_weight);
    kernels::Ctc::Result ctc =
        ctc_.forward(tape.shared().value(), {.labels = batch.labels, .weights = ctc_weights},
                     tape.context(step, options_.ctc_layer()), tape);
    const at::Tensor attention = decoder_.forward(
        *batch.decoder, scaled(weights, 1.0 - options_.ctc_weight), tape.seen(), step, tape);
    return {.terms = {ctc.loss, attention}, .infeasible = std::move(ctc.infeasible)};
  }

  void backward(const data::MicroBatch& batch, const nn::StepContext& step,
                nn::Tape& tape) override {
    decoder_.backward(*batch.decoder, tape.seen(), step, tape);
    tape.shared().add_gradient(ctc_.backward(tape.context(step, options_.ctc_layer()), tape));
    const Context front = tape.context(step, options_.layers);
    front_.backward(encoder_.backward(tape.shared().take_gradient(), front, tape), tape.packings(),
                    front, tape);
  }

  Recognition recognise(const data::MicroBatch& batch) override {
    nn::Tape tape;
    tape.shared().put(encode(batch, {.is_training = false}, tape));
    const at::Tensor encoded = tape.shared().value();
    const kernels::Packing& frames = tape.packings().back();
    Recognition result = ctc_recognition(ctc_.logits(encoded), frames, batch.labels, ctc_.blank());
    result.losses.terms.push_back(decoder_.evaluate(*batch.decoder, tape.seen()));
    result.scorer = std::make_unique<AttentionScorer>(
        decoder_, AttentionScorer::Audio{.encoded = encoded, .packing = frames},
        AttentionScorer::Tokens{.prompts = prompts_of(batch.labels, *outline().decoder),
                                .end = outline().decoder->end});
    return result;
  }

 private:
  at::Tensor encode(const data::MicroBatch& batch, const nn::StepContext& step,
                    nn::Tape& tape) const {
    tape.put_packings(front_.packings_from(batch.packing));
    const Context front = tape.context(step, options_.layers);
    at::Tensor x =
        compute_ == at::kFloat ? batch.values : kernels::Cast::to(batch.values, compute_);
    return encoder_.forward(front_.forward(std::move(x), tape.packings(), front, tape), front,
                            tape);
  }

  ToyOptions options_;
  at::ScalarType compute_;
  nn::ParameterStore store_;
  nn::Subsampling front_;
  nn::TransformerStack encoder_;
  nn::CtcHead ctc_;
  nn::AttentionDecoder decoder_;
};

}  // namespace

Family toy_family() {
  return make_family<ToyOptions>(
      {.name = "toy",
       .task = kTranscription,
       .example = "tests/e2e/toy",
       .presets = {{.name = "toy"}},
       .make = make_network<Toy, ToyOptions>,
       .keep_one_layer = [](ToyOptions& options) { options.layers = options.decoder_layers = 1; }});
}

}  // namespace sotto::models
