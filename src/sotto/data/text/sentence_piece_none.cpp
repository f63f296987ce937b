#include <utility>

#include "sotto/core/error.h"
#include "sotto/data/text/sentence_piece.h"

namespace sotto::data {

namespace {

[[noreturn]] void refuse(std::string attempted) {
  throw ConfigError({.attempted = std::move(attempted),
                     .found = "this build has no SentencePiece",
                     .expected = "a build with it, or a character vocabulary",
                     .hint = "Install libsentencepiece-dev and build again."});
}

}  // namespace

struct SentencePieceModel::Processor {};

SentencePieceModel::~SentencePieceModel() = default;
SentencePieceModel::SentencePieceModel(SentencePieceModel&&) noexcept = default;

// NOLINTNEXTLINE(performance-unnecessary-value-param): the other version keeps them
SentencePieceModel SentencePieceModel::parse(std::string /*bytes*/, const std::string& source) {
  refuse(fmt::format("reading the tokenizer {}", source));
}

int64_t SentencePieceModel::size() const {
  return 0;
}

std::optional<int32_t> SentencePieceModel::padding() const {
  return std::nullopt;
}

std::optional<int32_t> SentencePieceModel::end() const {
  return std::nullopt;
}

int32_t SentencePieceModel::unknown() const {
  return 0;
}

std::vector<int32_t> SentencePieceModel::encode(std::string_view /*text*/,
                                                std::vector<std::string>& /*unknown*/) const {
  return {};
}

std::string SentencePieceModel::piece(int32_t /*piece*/) const {
  return {};
}

std::string SentencePieceModel::decode(std::span<const int32_t> /*pieces*/) const {
  return {};
}

std::string train_sentence_piece(const std::vector<std::string>& /*texts*/,
                                 const SentencePieceTraining& training) {
  refuse(fmt::format("training a tokenizer of {} pieces", training.size));
}

}  // namespace sotto::data
