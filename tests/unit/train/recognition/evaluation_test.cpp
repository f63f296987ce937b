#include "sotto/train/recognition/evaluation.h"

#include <gtest/gtest.h>

#include <utility>

namespace sotto::train {
namespace {

TEST(Errors, AreSummedByGroup) {
  const auto sentence = [](std::string speaker, const std::string& said, const std::string& heard) {
    return Evaluation::Sentence{.reference = said,
                                .hypothesis = heard,
                                .speaker = std::move(speaker),
                                .lang = {},
                                .words = decode::word_errors(said, heard),
                                .characters = decode::character_errors(said, heard)};
  };
  const std::vector<Evaluation::Sentence> sentences = {sentence("theo", "a b", "a"),
                                                       sentence("ana", "a b c", "a b c"),
                                                       sentence("theo", "b", "a b")};
  const std::vector<ErrorGroup> groups = group_errors(sentences, &Evaluation::Sentence::speaker);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].name, "ana");
  EXPECT_EQ(groups[0].words.errors(), 0);
  EXPECT_EQ(groups[1].num_utterances, 2);
  EXPECT_EQ(groups[1].words.errors(), 2);
  EXPECT_EQ(groups[1].words.reference_length, 3);
  const std::vector<Evaluation::Sentence> worst = worst_sentences(sentences, 2);
  ASSERT_EQ(worst.size(), 2u);
  EXPECT_EQ(worst[0].hypothesis, "a");
  EXPECT_EQ(worst[1].hypothesis, "a b");
}

}  // namespace
}  // namespace sotto::train
