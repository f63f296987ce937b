#include "sotto/train/recognition/evaluation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "sotto/data/batch/loader.h"
#include "sotto/data/batch/micro_batch.h"
#include "sotto/data/batch/sampler.h"
#include "sotto/kernels/loss/cross_entropy.h"
#include "sotto/train/step/fit.h"
#include "sotto/train/step/step.h"

namespace sotto::train {

namespace {

using models::Model;

struct Part {
  const data::LoadedStep& step;
  std::span<const int64_t> indices;

  const data::Example& example(size_t i) const {
    return step.examples[static_cast<size_t>(indices[i])];
  }
};

// The losses of the utterances of a part, and the texts that were recognised.
struct PartResults {
  std::span<const float> losses;
  const std::vector<std::string>& texts;
};

void add_sentences(const Part& part, const PartResults& results,
                   const decode::TextNormalizer* normalizer, Evaluation& evaluation) {
  const auto compared = [&](const std::string& text) {
    return normalizer == nullptr ? text : normalizer->apply(text);
  };
  for (size_t i = 0; i < part.indices.size(); ++i) {
    const data::Example& example = part.example(i);
    Evaluation::Sentence sentence{.utterance = example.utterance,
                                  .reference = compared(example.reference),
                                  .hypothesis = compared(results.texts[i]),
                                  .speaker = example.speaker,
                                  .lang = example.lang,
                                  .words = {},
                                  .characters = {}};
    sentence.words = decode::word_errors(sentence.reference, sentence.hypothesis);
    sentence.characters = decode::character_errors(sentence.reference, sentence.hypothesis);
    evaluation.words += sentence.words;
    evaluation.characters += sentence.characters;
    evaluation.loss +=
        results.losses[i] / std::max<double>(1.0, static_cast<double>(example.labels.size()));
    evaluation.audio_seconds += example.seconds;
    evaluation.sentences.push_back(std::move(sentence));
  }
}

// Returns the loss of each utterance of a micro-batch: the weighted sum of its terms.
std::vector<float> losses_of(const Model& model, const models::Recognition& recognition) {
  const std::vector<models::LossTerm>& terms = model.outline().loss_terms;
  std::vector<float> sums;
  for (size_t term = 0; term < terms.size(); ++term) {
    const at::Tensor on_host = recognition.losses.terms[term].cpu();
    const auto values = std::span(on_host.const_data_ptr<float>(), on_host.numel());
    sums.resize(values.size(), 0.0f);
    for (size_t i = 0; i < values.size(); ++i)
      sums[i] += static_cast<float>(terms[term].weight) * values[i];
  }
  return sums;
}

// Adds the sum of losses; the mean is computed at the end.
void add_text(const Part& part, std::span<const float> losses, Evaluation& evaluation) {
  evaluation.loss = std::accumulate(losses.begin(), losses.end(), evaluation.loss);
  for (size_t i = 0; i < part.indices.size(); ++i) {
    const std::vector<int32_t>& labels = part.example(i).labels;
    evaluation.num_tokens +=
        std::ssize(labels) - std::ranges::count(labels, kernels::CrossEntropy::kNoTarget);
  }
}

}  // namespace

std::vector<ErrorGroup> group_errors(const std::vector<Evaluation::Sentence>& sentences,
                                     std::string Evaluation::Sentence::* by) {
  std::map<std::string, ErrorGroup> groups;
  for (const Evaluation::Sentence& sentence : sentences) {
    ErrorGroup& group = groups[sentence.*by];
    group.name = sentence.*by;
    group.words += sentence.words;
    group.characters += sentence.characters;
    ++group.num_utterances;
  }
  std::vector<ErrorGroup> in_order;
  for (auto& [name, group] : groups) in_order.push_back(std::move(group));
  return in_order;
}

std::vector<Evaluation::Sentence> worst_sentences(
    const std::vector<Evaluation::Sentence>& sentences, int64_t count) {
  std::vector<Evaluation::Sentence> worst = sentences;
  std::ranges::stable_sort(worst, std::greater<>(), [](const Evaluation::Sentence& sentence) {
    return std::pair(sentence.words.errors(), sentence.characters.errors());
  });
  if (std::ssize(worst) > count) worst.resize(static_cast<size_t>(count));
  return worst;
}

Evaluation evaluate(Model& model, const data::Source& source, const data::Tokenizer& tokenizer,
                    device::StagingBuffer& staging, const EvaluationOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const data::Sampler sampler(
      {.batch = {.utterances = kLoadedAtOnce}, .curriculum = data::Curriculum::kListed},
      source.lengths());
  const int64_t num_steps = sampler.epoch(0).num_steps();
  data::Loader loader(source, sampler, {.num_threads = options.loader_threads, .start = {}});
  Evaluation evaluation;
  evaluation.task = options.task;
  evaluation.num_skipped = source.num_skipped();
  evaluation.skipped.assign(source.skipped().begin(), source.skipped().end());
  for (int64_t i = 0; i < num_steps; ++i) {
    data::LoadedStep step = loader.next();
    evaluation.num_skipped += std::ssize(step.skipped);
    std::move(step.skipped.begin(), step.skipped.end(), std::back_inserter(evaluation.skipped));
    if (step.examples.empty()) continue;
    for (const std::vector<int64_t>& indices : split_step(model, step.examples, options.limits)) {
      const models::Recognition recognition = model.recognise(
          data::make_micro_batch(step.examples, indices, staging,
                                 {.device = options.device, .decoder = model.outline().decoder}));
      const std::vector<float> losses = losses_of(model, recognition);
      const Part part{.step = step, .indices = indices};
      if (options.task->is_text()) {
        add_text(part, losses, evaluation);
      } else {
        std::vector<std::string> texts;
        for (const auto& labels : decode::find_labels(recognition, options.decoding))
          texts.push_back(decode::text_of(labels, tokenizer));
        add_sentences(part, {.losses = losses, .texts = texts}, options.normalizer, evaluation);
      }
      evaluation.num_utterances += std::ssize(indices);
      if (options.progress) options.progress(evaluation.num_utterances);
    }
  }
  std::ranges::stable_sort(evaluation.sentences, {}, &Evaluation::Sentence::utterance);
  const int64_t num_losses =
      options.task->is_text() ? evaluation.num_tokens : evaluation.num_utterances;
  if (num_losses > 0) evaluation.loss /= static_cast<double>(num_losses);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  evaluation.seconds = elapsed.count();
  return evaluation;
}

}  // namespace sotto::train
