// A build without SentencePiece says what to install.
#include <gtest/gtest.h>

#include "sotto/core/error.h"
#include "sotto/data/text/tokenizer.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::data {
namespace {

using test::contains;
using test::message_of;

TEST(SentencePieceNone, NamesThePackage) {
  const test::TempFolder folder;
  const auto model = folder.write("tokenizer.model", "any");
  EXPECT_PRED2(contains, message_of<ConfigError>([&] { Tokenizer::read(model, {}); }),
               "Install libsentencepiece-dev");
  EXPECT_PRED2(contains, message_of<ConfigError>([] { train_sentence_piece({"a b"}, {}); }),
               "Install libsentencepiece-dev");
}

}  // namespace
}  // namespace sotto::data
