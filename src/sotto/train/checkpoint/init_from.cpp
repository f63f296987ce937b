#include "sotto/train/checkpoint/init_from.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "sotto/core/error.h"
#include "sotto/core/formats/weight_folder.h"
#include "sotto/models/files/tensor_values.h"
#include "sotto/models/hub/hugging_face.h"
#include "sotto/train/checkpoint/checkpoint.h"
#include "sotto/train/checkpoint/checkpoint_weights.h"

namespace sotto::train {

namespace {

namespace fs = std::filesystem;
using models::NamedTensor;

// Tensors whose rows are vocabulary entries.
constexpr std::array kOfVocabulary = {
    std::string_view("lm_head.weight"),    std::string_view("lm_head.bias"),
    std::string_view("head.weight"),       std::string_view("head.bias"),
    std::string_view("embedding.weight"),  std::string_view("ctc_head.weight"),
    std::string_view("ctc_head.bias"),     std::string_view("decoder.embedding.weight"),
    std::string_view("joint.head.weight"), std::string_view("joint.head.bias")};
// Heads that no checkpoint lacks: another size of theirs is a mistake.
constexpr std::array kTrainedHeads = {std::string_view("ctc_head.bias"),
                                      std::string_view("joint.head.bias")};

bool has_another_vocabulary(const fs::path& folder, const data::Tokenizer& tokenizer) {
  const std::optional<fs::path> file = data::Tokenizer::find(folder);
  return file &&
         data::Tokenizer::read(*file, tokenizer.rules()).fingerprint() != tokenizer.fingerprint();
}

// Throws DataError where the tokenizer that came with a network has entries for which its head has
// no outputs.
void check_own_tokenizer(const fs::path& folder, const data::Tokenizer& tokenizer) {
  const WeightFolder weights = WeightFolder::open(folder);
  const bool has_head = std::ranges::any_of(
      kTrainedHeads, [&](std::string_view name) { return weights.find(name) != nullptr; });
  if (!has_head || !data::Tokenizer::find(folder) || has_another_vocabulary(folder, tokenizer))
    return;
  const int64_t outputs = models::shape_of_hugging_face(folder).vocabulary;
  if (tokenizer.size() <= outputs) return;
  throw DataError(
      {.attempted = fmt::format("initialising with the weights of {}", folder.string()),
       .found = fmt::format("its tokenizer has {} entries, its head {} outputs", tokenizer.size(),
                            outputs),
       .expected = "at most as many entries as outputs",
       .hint = "Check that the tokenizer belongs to the network. For a new head, name a tokenizer "
               "outside the folder: --set data.tokenizer=FILE."});
}

// Returns the weights to load: without those tied to the vocabulary where it differs, which are
// noted.
std::vector<NamedTensor> wanted_weights(const fs::path& folder, const data::Tokenizer& tokenizer,
                                        Learner& learner, std::vector<std::string>& notes) {
  std::vector<NamedTensor> wanted = models::with_remainders(
      learner.model->named_weights(), learner.model->parameters(), learner.optimizer.remainders());
  if (!has_another_vocabulary(folder, tokenizer)) return wanted;
  const auto removed = std::ranges::stable_partition(wanted, [](const NamedTensor& named) {
    return std::ranges::find(kOfVocabulary, named.name) == kOfVocabulary.end();
  });
  std::vector<std::string> names;
  for (const NamedTensor& named : removed) names.push_back(named.name);
  wanted.erase(removed.begin(), removed.end());
  notes.push_back(
      fmt::format("its vocabulary differs: {} start from random weights", fmt::join(names, ", ")));
  return wanted;
}

}  // namespace

std::vector<std::string> init_weights(const InitFrom& from, const data::Tokenizer& tokenizer,
                                      Learner& learner) {
  const std::optional<fs::path> checkpoint = find_checkpoint(from.source);
  const fs::path folder =
      checkpoint ? *checkpoint : models::find_model_folder(from.source.string());
  std::optional<CheckpointWeights> exact;
  if (checkpoint) {
    check_checkpoint(folder, CheckpointPart::kAll);
    // An exported checkpoint has no optimizer state, so no remainders of its weights.
    if (fs::exists(optimizer_path(folder))) exact.emplace(folder);
  }
  if (from.is_whole_model) check_own_tokenizer(folder, tokenizer);
  models::ImportRules rules = models::hugging_face_rules(folder);
  // The empty prefix matches every name.
  if (!from.is_whole_model) rules.may_lack = rules.may_leave = {""};
  std::vector<std::string> notes;
  const std::vector<NamedTensor> wanted =
      models::names_in(folder, wanted_weights(folder, tokenizer, learner, notes));
  const models::Imported imported =
      models::import_tensors(WeightFolder::open(folder), wanted, rules,
                             [&](const NamedTensor& named, const TensorView& view) {
                               return exact ? exact->values_of(named, learner.model->parameters())
                                            : models::read_values(named, view);
                             });
  if (imported.num_taken == 0)
    throw DataError(
        {.attempted = fmt::format("initialising with the weights of {}", folder.string()),
         .found = "none of its tensors has the name and shape of a weight of this network",
         .expected = "a network of the same kind",
         .hint = "Compare model: in both configurations."});
  for (std::string& note : models::notes_of(imported)) notes.push_back(std::move(note));
  return notes;
}

}  // namespace sotto::train
