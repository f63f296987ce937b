#include "sotto/decode/ngram_model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sotto/core/error.h"
#include "support/reader_samples.h"
#include "support/temp_folder.h"
#include "support/thrown.h"

namespace sotto::decode {
namespace {

using test::contains;
using test::message_of;
using test::TempFolder;

const std::string kModel = test::arpa_sample();

NgramModel model_of(const std::string& text) {
  const TempFolder folder;
  return NgramModel::read(folder.write("lm.arpa", text));
}

// In base 10, as the file has them.
double log10_of(const NgramModel& model, const std::vector<std::string>& words, bool is_whole) {
  NgramModel::State state = model.begin();
  double score = 0.0;
  for (const std::string& word : words) score += model.score(state, word);
  if (is_whole) score += model.finish(state);
  return score / std::log(10.0);
}

TEST(NgramModel, UsesTheLongestNgram) {
  const NgramModel model = model_of(kModel);
  EXPECT_EQ(model.order(), 3);
  EXPECT_EQ(model.size(), 9);
  EXPECT_NEAR(log10_of(model, {"cat"}, false), -0.4, 1e-6);
  EXPECT_NEAR(log10_of(model, {"cat", "sits"}, false), -0.4 - 0.1, 1e-6);
  // "cat sits </s>" is none and "cat sits" backs off to "sits </s>".
  EXPECT_NEAR(log10_of(model, {"cat", "sits"}, true), -0.4 - 0.1 - 0.15 - 0.2, 1e-6);
}

TEST(NgramModel, BacksOff) {
  const NgramModel model = model_of(kModel);
  // "<s> sits" is none.
  EXPECT_NEAR(log10_of(model, {"sits"}, false), -0.5 - 0.8, 1e-6);
  // Neither "<s> cat cat" nor "cat cat".
  EXPECT_NEAR(log10_of(model, {"cat", "cat"}, false), -0.4 - 0.25 - 0.3 - 0.7, 1e-6);
  // A word that the model does not have is <unk>, also as what comes before.
  EXPECT_NEAR(log10_of(model, {"dog"}, false), -0.5 - 2.0, 1e-6);
  EXPECT_NEAR(log10_of(model, {"dog", "cat"}, false), -0.5 - 2.0 - 0.1 - 0.7, 1e-6);
}

TEST(NgramModel, HasAFloorWithoutUnk) {
  const NgramModel model =
      model_of("\\data\\\nngram 1=2\n\\1-grams:\n-0.5 a -0.2\n-0.5 </s>\n\\end\\\n");
  EXPECT_NEAR(log10_of(model, {"a"}, true), -1.0, 1e-6);
  EXPECT_NEAR(log10_of(model, {"z"}, false), -10.0, 1e-6);
}

TEST(NgramModel, ReportsErrors) {
  const auto refusal = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return message_of<DataError>([&] { model_of(text); });
  };
  const std::string model = kModel;
  EXPECT_PRED2(contains, refusal(model, "\\data\\", "data"), "the end of the file");
  EXPECT_PRED2(contains, refusal(model, "ngram 2=3", "ngram 3=3"), "line 4: 'ngram 3=3'");
  EXPECT_PRED2(contains, refusal(model, "ngram 2=3", "ngram 2=-1"), "ngram 2=N");
  EXPECT_PRED2(contains, refusal(model, "ngram 2=3", "ngram 2=2"), "'-0.2\tsits </s>'");
  EXPECT_PRED2(contains, refusal(model, "ngram 2=3", "ngram 2=4"), "no logarithm");
  EXPECT_PRED2(contains, refusal(model, "-0.7\tcat", "0.7\tcat"), "no logarithm");
  EXPECT_PRED2(contains, refusal(model, "-0.7\tcat", "nan\tcat"), "no logarithm");
  // No float holds these; two of them together were no number.
  EXPECT_PRED2(contains, refusal(model, "-0.7\tcat", "-1e300\tcat"), "no logarithm");
  EXPECT_PRED2(contains, refusal(model, "cat\t-0.3", "cat\t1e300"), "'1e300' after the words");
  EXPECT_PRED2(contains, refusal(model, "<s> cat sits", "<s> cat stands"), "'stands', which is no");
  EXPECT_PRED2(contains, refusal(model, "<s> cat sits", "<s> cat"), "2 words");
  EXPECT_PRED2(contains, refusal(model, "cat sits\t-0.15", "cat sits\tx"), "'x' after the words");
  EXPECT_PRED2(contains, refusal(model, "cat sits\t-0.15", "<s> cat\t-0.15"), "twice");
  EXPECT_PRED2(contains, refusal(model, "\\end\\", ""), "the end of the file");
  EXPECT_PRED2(contains, message_of<DataError>([] { NgramModel::read("/nowhere/lm.arpa"); }),
               "lm.arpa");
}

}  // namespace
}  // namespace sotto::decode
