#include "sotto/decode/english_number_words.h"

#include <map>
#include <utility>
#include <vector>

namespace sotto::decode {

namespace {

using Text = std::u32string;

using Dictionary = std::map<Text, NumberMeaning, std::less<>>;

Text ordinal_of(const Text& name) {
  static const std::map<Text, Text> irregular = {{U"one", U"first"},
                                                 {U"two", U"second"},
                                                 {U"three", U"third"},
                                                 {U"five", U"fifth"},
                                                 {U"twelve", U"twelfth"}};
  if (const auto found = irregular.find(name); found != irregular.end()) return found->second;
  return name + (name.ends_with(U't') ? U"h" : U"th");
}

Text suffix_of_ordinal(int value) {
  switch (value) {
    case 1: return U"st";
    case 2: return U"nd";
    case 3: return U"rd";
    default: return U"th";
  }
}

void add_ones(Dictionary& words) {
  const std::vector<Text> names = {U"one",     U"two",       U"three",    U"four",     U"five",
                                   U"six",     U"seven",     U"eight",    U"nine",     U"ten",
                                   U"eleven",  U"twelve",    U"thirteen", U"fourteen", U"fifteen",
                                   U"sixteen", U"seventeen", U"eighteen", U"nineteen"};
  int value = 0;
  for (const Text& name : names) {
    ++value;
    words[name] = {.word = NumberWord::kOnes, .value = value};
    words[name == U"six" ? U"sixes" : name + U"s"] = {
        .word = NumberWord::kOnesSuffixed, .value = value, .suffix = U"s"};
    words[ordinal_of(name)] = {
        .word = NumberWord::kOnesSuffixed, .value = value, .suffix = suffix_of_ordinal(value)};
  }
  words[U"zeroth"] = {.word = NumberWord::kOnesSuffixed, .value = 0, .suffix = U"th"};
}

void add_tens(Dictionary& words) {
  int value = 10;
  for (const char32_t* name :
       {U"twenty", U"thirty", U"forty", U"fifty", U"sixty", U"seventy", U"eighty", U"ninety"}) {
    value += 10;
    words[name] = {.word = NumberWord::kTens, .value = value};
    const Text stem(name, Text(name).size() - 1);
    words[stem + U"ies"] = {.word = NumberWord::kTensSuffixed, .value = value, .suffix = U"s"};
    words[stem + U"ieth"] = {.word = NumberWord::kTensSuffixed, .value = value, .suffix = U"th"};
  }
}

void add_multipliers(Dictionary& words) {
  const std::vector<std::pair<Text, int>> zeros = {
      {U"hundred", 2},     {U"thousand", 3},     {U"million", 6},      {U"billion", 9},
      {U"trillion", 12},   {U"quadrillion", 15}, {U"quintillion", 18}, {U"sextillion", 21},
      {U"septillion", 24}, {U"octillion", 27},   {U"nonillion", 30},   {U"decillion", 33}};
  for (const auto& [name, value] : zeros) {
    words[name] = {.word = NumberWord::kMultiplier, .value = value};
    words[name + U"s"] = {.word = NumberWord::kMultiplierSuffixed, .value = value, .suffix = U"s"};
    words[name + U"th"] = {
        .word = NumberWord::kMultiplierSuffixed, .value = value, .suffix = U"th"};
  }
}

Dictionary make_dictionary() {
  Dictionary words;
  for (const char32_t* zero : {U"o", U"oh", U"zero"}) words[zero] = {.word = NumberWord::kZero};
  add_ones(words);
  add_tens(words);
  add_multipliers(words);
  for (const char32_t* word : {U"minus", U"negative"})
    words[word] = {.word = NumberWord::kSignBefore, .suffix = U"-"};
  for (const char32_t* word : {U"plus", U"positive"})
    words[word] = {.word = NumberWord::kSignBefore, .suffix = U"+"};
  for (const auto& [word, sign] : {std::pair(U"pound", U"£"), std::pair(U"euro", U"€"),
                                   std::pair(U"dollar", U"$"), std::pair(U"cent", U"¢")}) {
    words[word] = words[Text(word) + U"s"] = {.word = NumberWord::kCurrencyAfter, .suffix = sign};
  }
  words[U"percent"] = {.word = NumberWord::kPercent};
  words[U"per"] = {.word = NumberWord::kPer};
  words[U"and"] = {.word = NumberWord::kAnd};
  words[U"double"] = {.word = NumberWord::kRepeat, .value = 2};
  words[U"triple"] = {.word = NumberWord::kRepeat, .value = 3};
  words[U"point"] = {.word = NumberWord::kPoint};
  return words;
}

}  // namespace

const NumberMeaning* number_meaning(std::u32string_view word) {
  static const Dictionary words = make_dictionary();
  const auto found = words.find(word);
  return found == words.end() ? nullptr : &found->second;
}

bool is_number_word(const std::u32string* word, NumberWord kind) {
  const NumberMeaning* meaning = word == nullptr ? nullptr : number_meaning(*word);
  return meaning != nullptr && meaning->word == kind;
}

}  // namespace sotto::decode
