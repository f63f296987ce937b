// Settings of the search, and which of them have an effect on which network.
#include "sotto/decode/decode_options.h"

#include <gtest/gtest.h>

#include "sotto/core/config/config.h"
#include "sotto/core/error.h"
#include "sotto/core/hash.h"
#include "support/thrown.h"

namespace sotto::decode {
namespace {

using test::contains;
using test::message_of;

const models::Outline kCtc{.layers = {}, .loss_terms = {{.name = "ctc"}}, .scores_frames = true};
const models::Outline kText{.layers = {}, .loss_terms = {{.name = "cross_entropy"}}};

models::Outline with_decoder(models::Outline outline) {
  outline.decoder = data::DecoderTokens{.start = 1, .end = 1};
  return outline;
}

models::Outline transducer() {
  models::Outline outline = with_decoder({.layers = {}, .loss_terms = {{.name = "tdt"}}});
  outline.scores_lattice = true;
  return outline;
}

std::string refusal_of(const std::vector<std::string>& settings, const models::Outline& outline) {
  return message_of<ConfigError>(
      [&] { check_effects(read_overrides<DecodeOptions>(settings), outline); });
}

TEST(DecodeOptions, ChooseTheSearch) {
  EXPECT_EQ(search_kind(kCtc, {}), SearchKind::kFrames);
  EXPECT_EQ(search_kind(kText, {}), SearchKind::kNone);
  EXPECT_EQ(search_kind(with_decoder(kText), {}), SearchKind::kTokens);
  EXPECT_EQ(search_kind(transducer(), {}), SearchKind::kLattice);
  EXPECT_EQ(search_kind(with_decoder(kCtc), {}), SearchKind::kJoint);
  EXPECT_EQ(search_kind(with_decoder(kCtc), {.ctc_weight = 0.0}), SearchKind::kTokens);
  EXPECT_EQ(search_kind(with_decoder(kCtc), {.ctc_weight = 1.0}), SearchKind::kFrames);
}

TEST(DecodeOptions, WithoutEffectAreRefused) {
  EXPECT_PRED2(contains, refusal_of({"ctc_weight=0.5"}, kCtc),
               "decode.ctc_weight 0.5 for a network with CTC alone");
  EXPECT_PRED2(contains, refusal_of({"ctc_weight=0.5"}, with_decoder(kText)),
               "an attention decoder alone");
  EXPECT_PRED2(contains, refusal_of({"max_tokens_per_frame=0.5"}, kCtc), "for CTC");
  EXPECT_PRED2(contains,
               refusal_of({"min_tokens_per_frame=0.1", "ctc_weight=1"}, with_decoder(kCtc)),
               "for CTC");
  EXPECT_PRED2(contains, refusal_of({"lm=a.arpa"}, kCtc), "decode.lm with decode.beam 1");
  EXPECT_PRED2(contains, refusal_of({"lm_weight=0.7"}, kCtc), "without decode.lm");
  EXPECT_PRED2(contains, refusal_of({"beam=4"}, kText), "does not transcribe");
  EXPECT_PRED2(contains, refusal_of({"max_symbols=4"}, kCtc), "decode.max_symbols 4 for CTC");
  EXPECT_PRED2(contains, refusal_of({"max_tokens_per_frame=2"}, transducer()), "for a transducer");
  EXPECT_PRED2(contains, refusal_of({"ctc_weight=0.5"}, transducer()), "a transducer alone");
  EXPECT_PRED2(contains, refusal_of({"lm=a.arpa", "beam=4"}, transducer()), "decode.lm");
  EXPECT_PRED2(contains, refusal_of({"length_penalty=1", "beam=4"}, kCtc), "for CTC");
  EXPECT_PRED2(contains, refusal_of({"length_penalty=1"}, with_decoder(kText)),
               "decode.length_penalty 1 with decode.beam 1");
  EXPECT_PRED2(contains, refusal_of({"whisper.temperatures=[0]"}, with_decoder(kText)),
               "decode.whisper for an attention decoder");
}

TEST(DecodeOptions, OutOfRangeAreRefused) {
  EXPECT_PRED2(contains, refusal_of({"beam=0"}, kCtc), "beam");
  EXPECT_PRED2(contains, refusal_of({"ctc_weight=1.5"}, kCtc), "ctc_weight");
  EXPECT_PRED2(
      contains,
      refusal_of({"min_tokens_per_frame=0.5", "max_tokens_per_frame=0.2"}, with_decoder(kCtc)),
      "min_tokens_per_frame 0.5 above max_tokens_per_frame 0.2");
}

TEST(DecodeOptions, HaveRisingTemperatures) {
  for (const char* text : {"[]", "[0.2, 0]", "[0, 0]"})
    EXPECT_PRED2(contains,
                 refusal_of({std::string("whisper.temperatures=") + text}, with_decoder(kText)),
                 "decode.whisper.temperatures [");
}

// Hashes of searches are in the folders of runs.
TEST(DecodeOptions, HaveAFingerprintThatNewSettingsLeaveAlone) {
  EXPECT_EQ(fingerprint({}), 0u);
  const uint64_t old = fingerprint({.beam = 4});
  EXPECT_EQ(old, fnv1a("4 0.3 1 0 0 0.5 1"));
  EXPECT_NE(fingerprint({.beam = 4, .length_penalty = 1.0}), old);
  EXPECT_NE(fingerprint({.beam = 4, .whisper = {.timestamps = false}}), old);
}

TEST(DecodeOptions, WithAnEffectAreTaken) {
  check_effects({.beam = 8}, kCtc);
  check_effects({.beam = 8, .lm = "a.arpa", .lm_weight = 0.7, .word_bonus = 0.0}, kCtc);
  check_effects({.ctc_weight = 0.5, .min_tokens_per_frame = 0.01}, with_decoder(kCtc));
  check_effects({.max_tokens_per_frame = 0.5}, with_decoder(kText));
  check_effects({.beam = 4, .length_penalty = 1.0}, with_decoder(kText));
  models::Outline whisper = with_decoder(kText);
  whisper.has_whisper_tokens = true;
  check_effects({.whisper = {.language = "polish", .temperatures = {0.0}}}, whisper);
  check_effects({.beam = 4, .max_symbols = 3}, transducer());
  check_effects({}, kText);
}

}  // namespace
}  // namespace sotto::decode
