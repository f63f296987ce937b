#include "sotto/data/text/sentence_piece.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "sotto/core/error.h"
#include "sotto/data/text/chars_map.h"

namespace sotto::data {

namespace {

namespace library = sentencepiece;

// A unigram model is summed per thread: another number of threads would give other bits.
constexpr const char* kTrainingThreads = "8";
// The library would omit longer texts. They are passed in parts.
constexpr size_t kMaxTextBytes = 65'536;
// Only fatal messages: its warnings are about settings that we choose.
constexpr const char* kQuiet = "3";

// The texts, long ones in parts that end at a space if there is one.
class Sentences final : public library::SentenceIterator {
 public:
  explicit Sentences(const std::vector<std::string>& texts) : texts_(texts) { take(); }

  bool done() const override { return text_ == texts_.size(); }
  void Next() override {
    begin_ += current_.size();
    if (begin_ == texts_[text_].size()) {
      ++text_;
      begin_ = 0;
    }
    take();
  }
  const std::string& value() const override { return current_; }
  library::util::Status status() const override { return {}; }

 private:
  void take() {
    while (text_ < texts_.size() && texts_[text_].empty()) ++text_;
    if (done()) return;
    const std::string& text = texts_[text_];
    size_t end = std::min(text.size(), begin_ + kMaxTextBytes);
    if (end < text.size()) {
      const size_t space = text.rfind(' ', end);
      if (space != std::string::npos && space > begin_) end = space;
      while ((static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
    }
    current_ = text.substr(begin_, end - begin_);
  }

  const std::vector<std::string>& texts_;
  size_t text_ = 0;
  size_t begin_ = 0;
  std::string current_;
};

// Returns the reason after the source location: "... [(a) <= (b)] Vocabulary size too high (9)."
std::string reason_of(const library::util::Status& status) {
  std::string text = status.error_message();
  const size_t index = text.find("] ");
  if (index != std::string::npos) text.erase(0, index + 2);
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  return text.empty() ? "no reason given" : text;
}

}  // namespace

struct SentencePieceModel::Processor {
  library::SentencePieceProcessor library;
};

SentencePieceModel::SentencePieceModel(std::string bytes, std::unique_ptr<Processor> processor)
    : bytes_(std::move(bytes)), processor_(std::move(processor)) {}
SentencePieceModel::~SentencePieceModel() = default;
SentencePieceModel::SentencePieceModel(SentencePieceModel&&) noexcept = default;

SentencePieceModel SentencePieceModel::parse(std::string bytes, const std::string& source) {
  auto processor = std::make_unique<Processor>();
  const library::util::Status status = processor->library.LoadFromSerializedProto(bytes);
  if (!status.ok() || processor->library.GetPieceSize() == 0) {
    throw DataError({.attempted = fmt::format("reading the tokenizer {}", source),
                     .found = "a file that SentencePiece cannot read",
                     .expected = "a SentencePiece model, such as `sotto tokenizer train` writes",
                     .hint = "If it was copied or downloaded, copy or download it again."});
  }
  check_chars_map_of_model(bytes, source);
  return {std::move(bytes), std::move(processor)};
}

int64_t SentencePieceModel::size() const {
  return processor_->library.GetPieceSize();
}

std::optional<int32_t> SentencePieceModel::padding() const {
  const int id = processor_->library.pad_id();
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

std::optional<int32_t> SentencePieceModel::end() const {
  const int id = processor_->library.eos_id();
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

int32_t SentencePieceModel::unknown() const {
  return processor_->library.unk_id();
}

std::vector<int32_t> SentencePieceModel::encode(std::string_view text,
                                                std::vector<std::string>& unknown) const {
  const library::SentencePieceProcessor& processor = processor_->library;
  std::vector<int> ids;
  const library::util::Status status = processor.Encode(text, &ids);
  SOTTO_ASSERT(status.ok(), "SentencePiece: {}", reason_of(status));
  const int unknown_id = this->unknown();
  if (std::ranges::find(ids, unknown_id) == ids.end()) return ids;
  // The slower form, which has the position of each piece, is used only if it is needed.
  const library::ImmutableSentencePieceText pieces = processor.EncodeAsImmutableProto(text);
  for (size_t i = 0; i < pieces.pieces_size(); ++i) {
    const auto piece = pieces.pieces(static_cast<int>(i));
    if (piece.id() != static_cast<uint32_t>(unknown_id)) continue;
    if (std::ranges::find(unknown, piece.surface()) == unknown.end())
      unknown.push_back(piece.surface());
  }
  return ids;
}

std::string SentencePieceModel::piece(int32_t piece) const {
  const library::SentencePieceProcessor& processor = processor_->library;
  if (processor.IsControl(piece) || processor.IsUnknown(piece)) return {};
  constexpr std::string_view kSpace = "\xE2\x96\x81";  // the mark that stands for a space
  const std::string marked = processor.IdToPiece(piece);
  std::string text;
  for (size_t at = 0; at < marked.size();) {
    const bool space = std::string_view(marked).substr(at).starts_with(kSpace);
    text += space ? ' ' : marked[at];
    at += space ? kSpace.size() : 1;
  }
  return text;
}

std::string SentencePieceModel::decode(std::span<const int32_t> pieces) const {
  std::string text;
  const library::util::Status status =
      processor_->library.Decode(std::vector<int>(pieces.begin(), pieces.end()), &text);
  SOTTO_ASSERT(status.ok(), "SentencePiece: {}", reason_of(status));
  return text;
}

std::string train_sentence_piece(const std::vector<std::string>& texts,
                                 const SentencePieceTraining& training) {
  const bool is_bpe = training.kind == SentencePieceTraining::Kind::kBpe;
  const std::unordered_map<std::string, std::string> settings = {
      {"model_type", is_bpe ? "bpe" : "unigram"},
      {"vocab_size", fmt::format("{}", training.size)},
      {"character_coverage", fmt::format("{}", training.character_coverage)},
      {"pad_id", "0"},
      {"unk_id", "1"},
      {"eos_id", "2"},
      {"bos_id", "-1"},
      // Our rules have already been applied to the texts; they must not be normalised again.
      {"normalization_rule_name", "identity"},
      {"max_sentence_length", fmt::format("{}", kMaxTextBytes)},
      {"num_threads", kTrainingThreads},
      {"minloglevel", kQuiet}};
  Sentences sentences(texts);
  std::string model;
  const library::util::Status status =
      library::SentencePieceTrainer::Train(settings, &sentences, &model);
  if (status.ok()) return model;
  throw DataError({.attempted = fmt::format("training a tokenizer of {} pieces", training.size),
                   .found = fmt::format("SentencePiece says \"{}\"", reason_of(status)),
                   .expected = "enough text for that many pieces, and more pieces than characters",
                   .hint = "Choose another --size, or give it more text."});
}

}  // namespace sotto::data
