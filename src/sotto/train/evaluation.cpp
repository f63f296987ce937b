#include "sotto/train/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "sotto/data/loader.h"
#include "sotto/data/micro_batch.h"
#include "sotto/data/sampler.h"
#include "sotto/train/step.h"

namespace sotto::train {

namespace {

using models::Model;

void add_sentences(const data::LoadedStep& step, std::span<const int64_t> places,
                   const Model::Recognised& recognised, const data::Dataset& dataset,
                   Evaluation& evaluation) {
  const std::vector<std::string> texts = texts_of(recognised, dataset.tokenizer());
  const at::Tensor on_host = recognised.loss.loss.cpu();
  const float* losses = on_host.const_data_ptr<float>();
  for (size_t i = 0; i < places.size(); ++i) {
    const data::Example& example = step.examples[static_cast<size_t>(places[i])];
    const data::Utterance utterance = dataset.manifest().at(example.utterance);
    // By the rules of the texts that the network learned from.
    const std::string reference = dataset.tokenizer().rules().apply(utterance.text);
    evaluation.words += word_errors(reference, texts[i]);
    evaluation.characters += character_errors(reference, texts[i]);
    evaluation.loss +=
        losses[i] / std::max<double>(1.0, static_cast<double>(example.labels.size()));
    evaluation.audio_seconds += utterance.duration_s;
    ++evaluation.num_utterances;
    evaluation.sentences.push_back(
        {.utterance = example.utterance, .reference = reference, .hypothesis = texts[i]});
  }
}

}  // namespace

std::vector<std::string> texts_of(const Model::Recognised& recognised,
                                  const data::Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (const std::vector<kernels::CtcGreedy::Label>& utterance : recognised.labels) {
    std::vector<int32_t> labels;
    for (const kernels::CtcGreedy::Label& label : utterance) labels.push_back(label.label);
    texts.push_back(tokenizer.decode(labels));
  }
  return texts;
}

Evaluation evaluate(Model& model, const data::Dataset& dataset, device::StagingBuffer& staging,
                    const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const data::Sampler sampler(
      {.batch = {.utterances = kLoadedAtOnce}, .curriculum = data::Curriculum::kListed},
      dataset.durations_s());
  const int64_t num_steps = sampler.epoch(0).num_steps();
  data::Loader loader(dataset, sampler, {.num_threads = options.loader_threads, .start = {}});
  Evaluation evaluation;
  for (int64_t i = 0; i < num_steps; ++i) {
    data::LoadedStep step = loader.next();
    std::move(step.skipped.begin(), step.skipped.end(), std::back_inserter(evaluation.skipped));
    if (step.examples.empty()) continue;
    for (const std::vector<int64_t>& places : split_step(model, step.examples, options.limits)) {
      const data::MicroBatch batch =
          data::make_micro_batch(step.examples, places, options.device, staging);
      add_sentences(step, places, model.recognise(batch), dataset, evaluation);
      if (options.progress) options.progress(evaluation.num_utterances);
    }
  }
  std::sort(evaluation.sentences.begin(), evaluation.sentences.end(),
            [](const Evaluation::Sentence& a, const Evaluation::Sentence& b) {
              return a.utterance < b.utterance;
            });
  if (evaluation.num_utterances > 0)
    evaluation.loss /= static_cast<double>(evaluation.num_utterances);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  evaluation.seconds = elapsed.count();
  return evaluation;
}

}  // namespace sotto::train
