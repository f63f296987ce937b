#include "sotto/train/checkpoint/average.h"
#include "sotto/core/files/atomic_folder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/core/formats/safetensors.h"
#include "sotto/models/files/tensor_values.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/checkpoint/checkpoint_weights.h"
#include "sotto/train/checkpoint/ranking.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;
using models::NamedTensor;

[[noreturn]] void refuse(const fs::path& folder, std::string found, std::string expected,
                         std::string hint) {
  throw DataError({.attempted = fmt::format("averaging {}", folder.string()),
                   .found = std::move(found),
                   .expected = std::move(expected),
                   .hint = std::move(hint)});
}

// Returns the configuration of the latest checkpoint that can be read.
RunConfig newest_config(const fs::path& run_folder) {
  const std::vector<fs::path> all = list_checkpoints(run_folder);
  for (auto path = all.rbegin(); path != all.rend(); ++path) {
    try {
      return read_checkpoint(*path).config;
    } catch (const DataError&) {
      continue;
    }
  }
  refuse(run_folder, fmt::format("{} checkpoints, none of which can be read", all.size()),
         "a run with checkpoints", "Name the folder of a run, such as runs/digits.");
}

// Entries of a tensor file whose bytes are computed when they are written. Until then each is
// identified by the bytes of an existing tensor.
class LazyEntries {
 public:
  using Make = std::function<std::vector<std::byte>()>;

  // `like`: a tensor of an open file with the same name, type and shape.
  void add(const std::string& name, const TensorView& like, Make make) {
    entries_.push_back({.name = name, .type = like.type, .shape = like.shape, .bytes = like.bytes});
    makers_[like.bytes.data()] = std::move(make);
  }

  FileSum write(const fs::path& path) {
    return write_safetensors(path, entries_, {{"format", "pt"}},
                             [&](std::span<const std::byte> bytes) -> std::span<const std::byte> {
                               if (bytes.empty()) return bytes;
                               made_ = makers_.at(bytes.data())();
                               return made_;
                             });
  }

 private:
  std::vector<SafetensorsEntry> entries_;
  std::map<const std::byte*, Make> makers_;
  std::vector<std::byte> made_;
};

class Average {
 public:
  explicit Average(const std::vector<fs::path>& folders)
      : last_(read_checkpoint(folders.back())),
        model_(make_model(last_.config, last_.state.shape, at::kMeta, /*trains=*/false)) {
    for (const fs::path& folder : folders) {
      sources_.push_back(std::make_unique<CheckpointWeights>(folder));
      check(*sources_.back());
    }
    // The evaluation was that of the last checkpoint.
    last_.state.metric.reset();
    named_ = models::with_remainders(model_->named_weights(), model_->parameters(), remainders());
  }

  void write(const fs::path& out) {
    write_checkpoint(out, last_,
                     {.weights = [&](const fs::path& path) { return weights().write(path); },
                      .optimizer = [&](const fs::path& path) { return remainder().write(path); }});
  }

 private:
  const CheckpointWeights& newest() const { return *sources_.back(); }

  // Throws where a checkpoint's network or vocabulary differs from the last one's.
  void check(const CheckpointWeights& source) const {
    const Checkpoint checkpoint = read_checkpoint(source.folder());
    if (checkpoint.tokenizer.fingerprint() != last_.tokenizer.fingerprint())
      refuse(source.folder(), "a different vocabulary from that of the last one",
             "checkpoints with the same vocabulary", "Choose checkpoints of one run.");
    std::vector<std::string> differences;
    for (const NamedTensor& named : model_->named_weights()) {
      if (std::string text = models::difference_of(named, source.weights().find(named.name));
          !text.empty())
        differences.push_back(std::move(text));
    }
    if (!differences.empty()) models::refuse_differences(source.folder().string(), differences);
    if (!(checkpoint.config.arithmetic() == last_.config.arithmetic()))
      refuse(source.folder(), "different numerics from those of the last one",
             "checkpoints with the same numerics", "Choose checkpoints of one run.");
  }

  // Tensors without storage for the remainders in the checkpoints, by parameter.
  std::map<std::string, at::Tensor> remainders() const {
    std::map<std::string, at::Tensor> found;
    for (const nn::Parameter& parameter : model_->parameters().parameters()) {
      const std::string& name = parameter.spec.name;
      const TensorView* view = newest().optimizer().find(remainder_name(name));
      if (view == nullptr) continue;
      const auto type = view->type == TensorType::kUint8 ? at::kByte : at::kShort;
      found[name] = at::empty(parameter.spec.shape, at::TensorOptions(at::kMeta).dtype(type));
    }
    return found;
  }

  std::vector<float> mean_of(const NamedTensor& named) const {
    std::vector<double> sum(static_cast<size_t>(named.tensor.numel()));
    for (const auto& source : sources_) {
      const std::vector<float> values = source->values_of(named, model_->parameters());
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(values[i]);
    }
    std::vector<float> mean(sum.size());
    for (size_t i = 0; i < sum.size(); ++i)
      mean[i] = static_cast<float>(sum[i] / static_cast<double>(sources_.size()));
    return mean;
  }

  LazyEntries weights() const {
    LazyEntries entries;
    for (const NamedTensor& named : named_) {
      entries.add(named.name, *newest().weights().find(named.name), [this, &named] {
        const std::vector<std::byte> bytes = models::bytes_of_values(named, mean_of(named)).values;
        std::vector<std::byte> buffer;
        const auto ordered = models::in_file_order(named, bytes, buffer);
        return std::vector<std::byte>(ordered.begin(), ordered.end());
      });
    }
    return entries;
  }

  // Remainders of the bf16 means, by parameter; empty for fp32.
  LazyEntries remainder() const {
    LazyEntries entries;
    for (const auto& [name, tensor] : remainders()) {
      const TensorView& like = *newest().optimizer().find(remainder_name(name));
      entries.add(remainder_name(name), like, [this, &like, name = name] {
        std::vector<std::byte> whole(like.bytes.size());
        for (const NamedTensor& named : named_) {
          const models::WeightLocation location = models::location_of(named, model_->parameters());
          if (location.parameter->spec.name != name) continue;
          const auto part = models::bytes_of_values(named, mean_of(named)).remainder;
          std::ranges::copy(part, whole.begin() + location.first_value * size_of(like.type));
        }
        return whole;
      });
    }
    return entries;
  }

  Checkpoint last_;
  // Without storage: defines how weights map to parameters.
  std::unique_ptr<models::Model> model_;
  std::vector<std::unique_ptr<CheckpointWeights>> sources_;
  std::vector<NamedTensor> named_;
};

}  // namespace

void average_checkpoints(const std::vector<fs::path>& checkpoints, const fs::path& out) {
  check_is_new(out);
  for (const fs::path& folder : checkpoints) check_checkpoint(folder, CheckpointPart::kAll);
  Average(checkpoints).write(out);
}

std::vector<fs::path> best_checkpoints(const fs::path& run_folder, int64_t count) {
  // A run that keeps one has it under another name.
  const int64_t num_kept = newest_config(run_folder).keep_best;
  if (num_kept == 1 && count == 1 && is_checkpoint(run_folder / kBestFolder))
    return {run_folder / kBestFolder};
  std::vector<RankedCheckpoint> ranked =
      rank_checkpoints(run_folder, dev_fingerprint_of(run_folder));
  if (std::ssize(ranked) < count)
    refuse(run_folder,
           fmt::format("{} checkpoint{} with an evaluation on the current evaluation data",
                       ranked.size(), ranked.size() == 1 ? "" : "s"),
           fmt::format("at least {}", count), "keep_best sets how many a run keeps.");
  // A run removes all but its best and its newest: the next in rank may be a new one that is worse
  // than what was removed.
  if (num_kept < count)
    refuse(
        run_folder, fmt::format("a run that keeps its best {} (keep_best)", num_kept),
        fmt::format("at least {}", count),
        fmt::format("Train with keep_best: {}, or average the newest: --last {}.", count, count));
  ranked.erase(ranked.begin() + count, ranked.end());
  std::ranges::sort(ranked, {}, &RankedCheckpoint::step);
  std::vector<fs::path> paths;
  for (const RankedCheckpoint& checkpoint : ranked) paths.push_back(checkpoint.path);
  return paths;
}

std::vector<fs::path> newest_checkpoints(const fs::path& run_folder, int64_t count) {
  std::vector<fs::path> all = list_checkpoints(run_folder);
  if (std::ssize(all) < count)
    refuse(run_folder, fmt::format("{} checkpoints", all.size()), fmt::format("at least {}", count),
           "keep_checkpoints sets how many a run keeps.");
  // Those before the newest were kept for their evaluations, and may be of any age.
  if (const RunConfig config = newest_config(run_folder);
      config.keep_best > 1 && config.keep_checkpoints < count)
    refuse(
        run_folder,
        fmt::format("a run that keeps its newest {} (keep_checkpoints)", config.keep_checkpoints),
        fmt::format("at least {}", count),
        fmt::format("Average the best: --best {}, or name folders.", count));
  all.erase(all.begin(), all.end() - count);
  return all;
}

}  // namespace sotto::train
