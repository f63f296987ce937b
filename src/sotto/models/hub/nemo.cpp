#include "sotto/models/hub/nemo.h"

#include <ATen/ATen.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <set>
#include <system_error>
#include <utility>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/formats/nemo_archive.h"
#include "sotto/core/formats/nemo_writer.h"
#include "sotto/core/hash.h"
#include "sotto/data/text/sentence_piece_fields.h"
#include "sotto/data/text/sentence_piece_file.h"
#include "sotto/kernels/features/log_mel.h"
#include "sotto/models/parakeet/parakeet_nemo.h"
#include "sotto/models/parakeet/parakeet_options.h"

namespace sotto::models {

namespace {

namespace fs = std::filesystem;

struct RenamedPart {
  std::string_view nemo;
  std::string_view hugging_face;
};
// Parts of names; in each name at most one occurs, at its beginning or after a layer.
constexpr std::array kRenamedParts = {
    RenamedPart{"encoder.pre_encode.conv.", "encoder.subsampling.layers."},
    RenamedPart{"encoder.pre_encode.out.", "encoder.subsampling.linear."},
    RenamedPart{".conv.batch_norm.", ".conv.norm."},
    RenamedPart{".self_attn.linear_q.", ".self_attn.q_proj."},
    RenamedPart{".self_attn.linear_k.", ".self_attn.k_proj."},
    RenamedPart{".self_attn.linear_v.", ".self_attn.v_proj."},
    RenamedPart{".self_attn.linear_out.", ".self_attn.o_proj."},
    RenamedPart{".self_attn.linear_pos.", ".self_attn.relative_k_proj."},
    RenamedPart{".self_attn.pos_bias_u", ".self_attn.bias_u"},
    RenamedPart{".self_attn.pos_bias_v", ".self_attn.bias_v"},
    RenamedPart{"decoder.decoder_layers.0.", "ctc_head."},
    RenamedPart{"decoder.prediction.embed.", "decoder.embedding."},
    RenamedPart{"decoder.prediction.dec_rnn.lstm.", "decoder.lstm."},
    RenamedPart{"joint.enc.", "encoder_projector."},
    RenamedPart{"joint.pred.", "decoder.decoder_projector."},
    RenamedPart{"joint.joint_net.2.", "joint.head."}};
// The last layer of a joint network without dropout has another number.
constexpr std::string_view kJointOutput = "joint.joint_net.2.";
constexpr std::string_view kJointOutputAlone = "joint.joint_net.1.";
// Constants of the features, which NeMo expects in an archive, and positions.
constexpr const char* kWindowName = "preprocessor.featurizer.window";
constexpr const char* kFiltersName = "preprocessor.featurizer.fb";

nlohmann::json settings_of(const NemoArchive& archive) {
  return nemo_settings(archive.parts(), archive.path());
}

int64_t rows_of_head(const TorchFile& weights, const ParakeetOptions& options,
                     const fs::path& path) {
  const std::string name =
      nemo_name(options.has_transducer() ? "decoder.embedding.weight" : "ctc_head.bias");
  const TensorView* head = weights.find(name);
  if (head == nullptr || head->shape.empty())
    throw DataError({.attempted = fmt::format("finding the head of {}", path.string()),
                     .found = fmt::format("no {}", name),
                     .expected = "the weights that its model_config.yaml describes"});
  return head->shape.front();
}

// Throws where the weights are not exactly those of the network.
void check_weights(const TorchFile& weights, const ModelOptions& options, const DataShape& shape,
                   const fs::path& path) {
  const std::unique_ptr<Model> model = options.make(shape, {.device = at::kMeta, .trains = false});
  std::set<std::string> known;
  std::vector<std::string> found;
  for (const NamedTensor& named : in_nemo_names(model->named_weights())) {
    known.insert({named.name, named.counter});
    known.insert(named.aliases.begin(), named.aliases.end());
    const TensorView* theirs = weights.find(named.name);
    for (const std::string& alias : named.aliases)
      if (theirs == nullptr) theirs = weights.find(alias);
    if (std::string difference = difference_of(named, theirs); !difference.empty())
      found.push_back(std::move(difference));
  }
  const std::vector<std::string> ignored = nemo_rules().ignored;
  for (const std::string& name : weights.names()) {
    const bool is_ignored = std::ranges::any_of(
        ignored, [&](const std::string& prefix) { return name.starts_with(prefix); });
    if (!is_ignored && !known.contains(name))
      found.push_back(fmt::format("{} is only in it", name));
  }
  if (found.empty()) return;
  constexpr size_t kMaxFound = 6;
  const size_t count = found.size();
  if (count > kMaxFound) {
    found.resize(kMaxFound);
    found.push_back(fmt::format("and {} more", count - kMaxFound));
  }
  throw DataError({.attempted = fmt::format("reading the weights of {}", path.string()),
                   .found = fmt::format("{}", fmt::join(found, "; ")),
                   .expected = "the weights that its model_config.yaml describes",
                   .hint = "Here: the shapes that follow from the settings."});
}

int64_t count_pieces(const NemoArchive& archive, const nlohmann::json& settings) {
  const auto model = archive.sentence_piece(nemo_tokenizer_name(settings));
  return std::ssize(data::stored_pieces(model, archive.path().string()));
}

// Throws where the tokenizer does not have one entry less than the network.
void check_pieces(int64_t count, int64_t vocabulary, const fs::path& path) {
  if (count + 1 == vocabulary) return;
  throw DataError(
      {.attempted = fmt::format("reading the tokenizer of {}", path.string()),
       .found = fmt::format("{} pieces for a network with {} entries", count, vocabulary),
       .expected = fmt::format("{} pieces, to which the blank is added", vocabulary - 1)});
}

// --- writing

// Returns the rows of a tensor whose first rows are the entries, with the blank's after the others.
at::Tensor with_blank_last(const at::Tensor& tensor, const DataShape& shape) {
  std::vector<int64_t> order(static_cast<size_t>(tensor.size(0)));
  std::iota(order.begin(), order.end(), 0);
  const auto entries = order.begin() + shape.vocabulary;
  std::rotate(order.begin() + shape.blank, order.begin() + shape.blank + 1, entries);
  return tensor.index_select(0, at::tensor(order, tensor.options().dtype(at::kLong)));
}

bool has_rows_of_entries(std::string_view name) {
  return name.starts_with("decoder.decoder_layers.0.") ||
         name.starts_with("decoder.prediction.embed.") || name.starts_with(kJointOutput);
}

std::vector<NamedTensor> feature_constants(const kernels::LogMelOptions& features) {
  const kernels::LogMel::Tables tables(features, at::kCPU);
  return {{.name = kWindowName, .tensor = tables.window() * 2.0},
          {.name = kFiltersName, .tensor = tables.filters().unsqueeze(0).contiguous()}};
}

// A name in the archive: with a hash before it, as NeMo names the files of a tokenizer.
std::string hashed_name(const std::string& content, const char* name) {
  return fmt::format("{:016x}{:016x}_{}", hash_bytes(content), fnv1a(content), name);
}

struct TokenizerMembers {
  NemoTokenizer names;
  std::vector<NemoContent::Member> files;
};

// tokenizer.vocab has the pieces with their scores, vocab.txt the pieces in the form of WordPiece.
TokenizerMembers tokenizer_members(const std::string& model) {
  TokenizerMembers members;
  std::string words;
  std::string scores;
  for (const data::StoredPiece& piece : data::stored_pieces(model, "the tokenizer")) {
    members.names.pieces.push_back(piece.text);
    scores += fmt::format("{}\t{}\n", piece.text, piece.score);
    if (piece.is_unknown) continue;
    const bool begins_word =
        piece.text.starts_with(data::kSpaceMark) && piece.text != data::kSpaceMark;
    words += begins_word ? piece.text.substr(data::kSpaceMark.size()) : "##" + piece.text;
    words += '\n';
  }
  members.files = {{hashed_name(model, "tokenizer.model"), model},
                   {hashed_name(words, "vocab.txt"), words},
                   {hashed_name(scores, "tokenizer.vocab"), scores}};
  members.names.model = members.files[0].name;
  members.names.words = members.files[1].name;
  members.names.scores = members.files[2].name;
  return members;
}

}  // namespace

std::optional<fs::path> find_nemo_in(const fs::path& folder) {
  std::error_code failed;
  if (fs::exists(folder / kHubConfig, failed)) return std::nullopt;
  std::optional<fs::path> found;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    if (!is_nemo_file(at->path())) continue;
    if (found) return std::nullopt;
    found = at->path();
  }
  return found;
}

HuggingFaceModel read_nemo(const fs::path& path) {
  NemoArchive archive = NemoArchive::open(path);
  const nlohmann::json settings = settings_of(archive);
  HuggingFaceModel model = read_parakeet_nemo(settings, path);
  try {
    // Converts through the settings reader, which validates each value.
    model.options = read_options<ModelOptions>(write_options(model.options));
  } catch (const ConfigError& error) {
    throw ConfigError({.attempted = fmt::format("reading {}: model_config.yaml", path.string()),
                       .found = error.what(),
                       .expected = "a network that can be built"});
  }
  if (archive.was_compressed())
    model.notes.emplace_back(
        "the archive is compressed: each command unpacks it into a file in TMPDIR or /var/tmp; "
        "`gunzip < FILE > OTHER.nemo` does so once");
  const int64_t num_pieces = count_pieces(archive, settings);
  // The weights take the archive's memory with them.
  const TorchFile weights = archive.take_weights();
  const int64_t vocabulary = rows_of_head(weights, model.options.as<ParakeetOptions>(), path);
  check_pieces(num_pieces, vocabulary, path);
  check_weights(weights, model.options, {.vocabulary = vocabulary, .blank = vocabulary - 1}, path);
  return model;
}

DataShape shape_of_nemo(const fs::path& path) {
  NemoArchive archive = NemoArchive::open(path);
  const HuggingFaceModel model = read_parakeet_nemo(settings_of(archive), path);
  const int64_t vocabulary =
      rows_of_head(archive.take_weights(), model.options.as<ParakeetOptions>(), path);
  return {.vocabulary = vocabulary, .blank = vocabulary - 1};
}

ImportRules nemo_rules() {
  const std::vector<std::string> heads = {"decoder.", "joint."};
  return {.may_lack = heads,
          .may_leave = heads,
          .ignored = {"preprocessor.featurizer.", "encoder.pos_enc."}};
}

std::string nemo_name(const std::string& name) {
  for (const RenamedPart& part : kRenamedParts) {
    const size_t at = name.find(part.hugging_face);
    if (at == std::string::npos || (at > 0 && part.hugging_face.front() != '.')) continue;
    return std::string(name).replace(at, part.hugging_face.size(), part.nemo);
  }
  return name;
}

std::vector<NamedTensor> in_nemo_names(std::vector<NamedTensor> weights) {
  for (NamedTensor& named : weights) {
    named.name = nemo_name(named.name);
    if (!named.counter.empty()) named.counter = nemo_name(named.counter);
    named.aliases.clear();
    if (named.name.starts_with(kJointOutput))
      named.aliases = {std::string(kJointOutputAlone) + named.name.substr(kJointOutput.size())};
  }
  return weights;
}

void check_known_to_nemo(const ModelOptions& options) {
  const auto refuse = [](const std::string& found, const std::string& expected) {
    throw ConfigError({.attempted = "writing a .nemo archive",
                       .found = found,
                       .expected = expected,
                       .hint = "Without `.nemo` at its end --out is a folder."});
  };
  const auto* parakeet = options.find<ParakeetOptions>();
  if (parakeet == nullptr)
    refuse(fmt::format("a network of the family {}", options.family().name), "one of parakeet");
  if (parakeet->convolution_norm != nn::InnerNormKind::kFrozenBatch &&
      parakeet->convolution_norm != nn::InnerNormKind::kBatch)
    refuse("a convolution_norm that is not a batch norm", "batch_frozen or batch");
  if (parakeet->hidden % parakeet->width != 0)
    refuse(fmt::format("hidden {} with width {}", parakeet->hidden, parakeet->width),
           "a multiple of the width");
  if (parakeet->features != kernels::LogMelOptions{.kind = kernels::LogMelKind::kNemo,
                                                   .sample_rate = parakeet->features.sample_rate,
                                                   .window = parakeet->features.window,
                                                   .hop = parakeet->features.hop,
                                                   .num_mels = parakeet->features.num_mels,
                                                   .f_min = parakeet->features.f_min,
                                                   .f_max = parakeet->features.f_max})
    refuse("features of another kind", "features.kind: nemo");
}

std::vector<std::string> write_nemo(const fs::path& path, NemoModel model) {
  check_known_to_nemo(model.options);
  const auto& options = model.options.as<ParakeetOptions>();
  std::vector<std::string> notes;
  std::vector<NamedTensor> weights = in_nemo_names(std::move(model.weights));
  for (NamedTensor& named : weights) {
    if (!has_rows_of_entries(named.name)) continue;
    named.tensor = with_blank_last(named.tensor, model.shape);
    const bool is_embedding = named.name.starts_with("decoder.prediction.embed.");
    if (is_embedding &&
        named.tensor[model.shape.vocabulary - 1].count_nonzero().item<int64_t>() > 0)
      notes.emplace_back(
          "NeMo starts label sequences with zeros, but this network has learned how they start: "
          "its results will differ in NeMo. Train with model.transducer.train_start=false for it");
  }
  for (NamedTensor& constant : feature_constants(options.features))
    weights.push_back(std::move(constant));
  if (options.activation_dropout != options.dropout || options.layer_drop > 0.0)
    notes.push_back(fmt::format(
        "NeMo has one dropout in a block and no layer drop: the archive says dropout {}, which "
        "matters if it is trained further",
        options.dropout));
  const int64_t pieces = std::ssize(data::stored_pieces(model.tokenizer, "the tokenizer"));
  if (pieces == model.shape.vocabulary)
    model.tokenizer = data::without_piece(model.tokenizer, model.shape.blank, "the tokenizer");
  const TokenizerMembers tokenizer = tokenizer_members(model.tokenizer);
  with_entries(weights, [&](std::span<const SafetensorsEntry> entries, const FetchBytes& fetch) {
    write_nemo_archive(path,
                       {.config = parakeet_nemo_config(options, tokenizer.names, model.reduction),
                        .members = tokenizer.files,
                        .weights = entries,
                        .fetch = fetch});
  });
  return notes;
}

}  // namespace sotto::models
