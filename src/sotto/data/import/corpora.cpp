#include "sotto/data/import/corpora.h"

namespace sotto::data {

namespace {

constexpr const char* kListByHand =
    "sotto data import --from table, with a list of files and texts";

std::vector<std::string> open_slr(int number, const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names)
    files.push_back("https://www.openslr.org/resources/" + std::to_string(number) + "/" + name);
  return files;
}

std::vector<Corpus> make_speech() {
  return {{.name = "librispeech",
           .what = "English audiobooks",
           .amount = "982 h",
           .size = "61 GB",
           .licence = "CC BY 4.0",
           .page = "https://www.openslr.org/12",
           .files = open_slr(12, {"dev-clean.tar.gz", "dev-other.tar.gz", "test-clean.tar.gz",
                                  "test-other.tar.gz", "train-clean-100.tar.gz",
                                  "train-clean-360.tar.gz", "train-other-500.tar.gz"}),
           .steps = "",
           .import = "sotto data import --from librispeech"},
          {.name = "mini-librispeech",
           .what = "A small part of LibriSpeech",
           .amount = "7 h",
           .size = "460 MB",
           .licence = "CC BY 4.0",
           .page = "https://www.openslr.org/31",
           .files = open_slr(31, {"dev-clean-2.tar.gz", "train-clean-5.tar.gz"}),
           .steps = "",
           .import = "sotto data import --from librispeech"},
          {.name = "ljspeech",
           .what = "One English reader",
           .amount = "24 h",
           .size = "2.7 GB",
           .licence = "public domain",
           .page = "https://keithito.com/LJ-Speech-Dataset",
           .files = {"https://data.keithito.com/data/speech/LJSpeech-1.1.tar.bz2"},
           .steps = "",
           .import = "sotto data import --from ljspeech"},
          {.name = "aishell-1",
           .what = "Mandarin, read by 400 speakers",
           .amount = "178 h",
           .size = "15 GB",
           .licence = "Apache-2.0",
           .page = "https://www.openslr.org/33",
           .files = open_slr(33, {"data_aishell.tgz"}),
           .steps = "",
           .import = kListByHand},
          {.name = "tedlium3",
           .what = "English talks",
           .amount = "452 h",
           .size = "54 GB",
           .licence = "CC BY-NC-ND 3.0",
           .page = "https://www.openslr.org/51",
           .files = open_slr(51, {"TEDLIUM_release-3.tgz"}),
           .steps = "",
           .import = "sotto data import --from kaldi, once its .stm files are a Kaldi folder"},
          {.name = "common-voice",
           .what = "Read by volunteers, over 100 languages",
           .amount = "over 20,000 h",
           .size = "up to 90 GB per language",
           .licence = "CC0-1.0",
           .page = "https://commonvoice.mozilla.org/datasets",
           .files = {},
           .steps = "Choose a language there, accept the terms, and unpack the archive.",
           .import = "sotto data import --from common-voice"},
          {.name = "mls",
           .what = "Audiobooks in 8 languages (Multilingual LibriSpeech)",
           .amount = "50,800 h; Polish 104 h",
           .size = "by language, Polish 6 GB",
           .licence = "CC BY 4.0",
           .page = "https://www.openslr.org/94",
           .files = {},
           .steps = "Choose a language there and pass its address to sotto data fetch.",
           .import = kListByHand},
          {.name = "voxpopuli",
           .what = "The European Parliament, 16 languages with transcripts",
           .amount = "1,800 h",
           .size = "by language",
           .licence = "CC0-1.0",
           .page = "https://github.com/facebookresearch/voxpopuli",
           .files = {},
           .steps = "The scripts in that repository download and segment a language.",
           .import = "sotto data import --from table"},
          {.name = "fleurs",
           .what = "The same sentences in 102 languages",
           .amount = "12 h per language",
           .size = "2 GB per language",
           .licence = "CC BY 4.0",
           .page = "https://huggingface.co/datasets/google/fleurs",
           .files = {},
           .steps = "Download data/LANGUAGE there: audio archives and a .tsv per part.",
           .import = "sotto data import --from table"},
          {.name = "an4",
           .what = "English letters, numbers and commands",
           .amount = "50 min",
           .size = "64 MB",
           .licence = "free use, with notice",
           .page = "http://www.speech.cs.cmu.edu/databases/an4",
           .files = {},
           .steps = "Download the archive an4_sphere or an4_raw there.",
           .import = kListByHand},
          {.name = "fsdd",
           .what = "Spoken digits, 6 speakers (Free Spoken Digit Dataset)",
           .amount = "22 min",
           .size = "17 MB",
           .licence = "CC BY-SA 4.0",
           .page = "https://github.com/Jakobovski/free-spoken-digit-dataset",
           .files = {},
           .steps = "Clone that repository.",
           .import = "tools/make_digit_strings.py"}};
}

std::vector<Corpus> make_text() {
  return {{.name = "wikitext-103",
           .what = "Good articles of the English Wikipedia",
           .amount = "103 million words",
           .size = "190 MB",
           .licence = "CC BY-SA 3.0",
           .page = "https://huggingface.co/datasets/Salesforce/wikitext",
           .files = {},
           .steps = "Download the raw files there and write them as text or JSON lines.",
           .import = "sotto data text"},
          {.name = "wolne-lektury",
           .what = "Polish literature",
           .amount = "over 6,000 works",
           .size = "by work",
           .licence = "public domain; editions CC BY-SA or Free Art License",
           .page = "https://wolnelektury.pl",
           .files = {},
           .steps = "Each work can be downloaded there as .txt; the site's API lists them.",
           .import = "sotto data text"}};
}

}  // namespace

const std::vector<Corpus>& public_corpora() {
  static const std::vector<Corpus> corpora = [] {
    std::vector<Corpus> all = make_speech();
    for (Corpus& corpus : make_text()) all.push_back(std::move(corpus));
    return all;
  }();
  return corpora;
}

std::optional<Corpus> find_corpus(std::string_view name) {
  for (const Corpus& corpus : public_corpora()) {
    if (corpus.name == name) return corpus;
  }
  return std::nullopt;
}

}  // namespace sotto::data
