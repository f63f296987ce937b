// Inputs of the readers that are as they should be, for mutations and fuzz programs to break.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sotto/core/formats/protobuf_message.h"
#include "sotto/core/formats/safetensors.h"
#include "support/gzip_bytes.h"
#include "support/npy_bytes.h"
#include "support/tar_bytes.h"
#include "support/temp_folder.h"
#include "support/wav_bytes.h"
#include "unit/core/formats/torch_bytes.h"

namespace sotto::test {

// A safetensors file as our writer makes it: several types, an empty tensor and a scalar.
inline std::string safetensors_sample() {
  const std::string values(64, 'v');
  const auto bytes = std::as_bytes(std::span(values));
  const std::vector<SafetensorsEntry> entries = {
      {.name = "a", .type = TensorType::kFloat32, .shape = {2, 3}, .bytes = bytes.first(24)},
      {.name = "b.weight", .type = TensorType::kBFloat16, .shape = {5}, .bytes = bytes.first(10)},
      {.name = "empty", .type = TensorType::kInt64, .shape = {0, 3}, .bytes = {}},
      {.name = "scalar", .type = TensorType::kInt64, .shape = {}, .bytes = bytes.first(8)}};
  const TempFolder folder;
  write_safetensors(folder.path() / "good", entries, {{"format", "pt"}});
  return content_of(folder.path() / "good");
}

// Headers of arrays of 48 bytes.
inline std::vector<std::string> npy_headers() {
  return {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }",
          "{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }",
          "{'descr': '<f2', 'fortran_order': False, 'shape': (24, 1), }"};
}

inline std::string npy_sample(const std::string& header, uint64_t version) {
  return npy_bytes(header, std::string(48, 'v'), version);
}

// --- torch.save

// A state dict with something of everything.
inline std::string pickle_sample(bool is_old) {
  const pickled::Storage floats = {.is_old = is_old};
  const pickled::Storage halves = {
      .class_name = "HalfStorage", .key = "1", .num_values = 4, .is_old = is_old};
  const std::string state =
      pickled::ordered_dict() + "(" + pickled::text("a") + pickled::tensor({.of = floats}) +
      pickled::text("transposed") +
      pickled::tensor({.of = floats, .shape = {3, 2}, .stride = {1, 3}}) + pickled::text("part") +
      pickled::tensor({.of = halves, .offset = 1, .shape = {1, 2}, .stride = {9, 1}}) +
      pickled::text("parameter") +
      pickled::call(pickled::global("torch._utils", "_rebuild_parameter"),
                    {pickled::tensor({.of = halves, .shape = {4}, .stride = {1}}), "\x88",
                     pickled::ordered_dict()}) +
      "u" + pickled::dict({{"_metadata", pickled::ordered_dict()}}) + "b";
  return pickled::whole(pickled::dict({{"epoch", "K\x07"}, {"state_dict", state}}));
}

enum class TorchForm { kZip, kZip64, kOld };

// The file around a pickle, with the values that those of pickle_sample() have.
inline std::string torch_sample(const std::string& pickle, TorchForm form) {
  const std::vector<StoredValues> values = {{"0", 6, std::string(24, 'f')},
                                            {"1", 4, std::string(8, 'h')}};
  if (form == TorchForm::kOld) return torch_old(pickle, values);
  return torch_zip(pickle, values, {.is_64 = form == TorchForm::kZip64});
}

// --- tar

// An archive with long names, pax headers, a folder and a link. `change` may break each part of it
// before the sums of its headers are made.
inline std::string tar_sample(const std::function<std::string(const std::string&)>& change =
                                  [](const std::string& part) { return part; }) {
  const auto file = [&](char type, const std::string& content) {
    TarHeader header{.name = change("a/b.flac"), .type = type, .prefix = change("p")};
    header.size = change(fmt::format("{:011o}", content.size())).substr(0, 12);
    header.name.resize(std::min<size_t>(header.name.size(), 100));
    header.prefix.resize(std::min<size_t>(header.prefix.size(), 155));
    return tar_file(header, content);
  };
  return file('0', "one") + file('L', change(std::string("long\0", 5))) + file('0', "two") +
         file('x', change(pax_record("path", "p.flac") + pax_record("size", "5"))) +
         file('0', "three") + file('5', "") + file('2', "") + tar_end();
}

// A SentencePiece model of two pieces.
inline std::string nemo_tokenizer_sample() {
  const auto piece = [](const std::string& text, int64_t type) {
    ProtobufMessage one;
    one.put_bytes(1, text);
    one.put_float(2, -1.0F);
    one.put_integer(3, type);
    return one.bytes();
  };
  ProtobufMessage model;
  model.put_bytes(1, piece("<unk>", 2));
  model.put_bytes(1, piece("a", 1));
  return model.bytes();
}

inline std::string nemo_config_sample() {
  return "target: nemo.collections.asr.models.EncDecCTCModelBPE\n"
         "tokenizer:\n  type: bpe\n  model_path: nemo:3f_tokenizer.model\n"
         "encoder: {d_model: 16, dropout: 1e-1, att_context_size: [-1, -1]}\n"
         "labels: ['\xE2\x96\x81t', \"\\u2581\", '''']\n";
}

// A `.nemo` archive of these settings, with an empty state dict and that tokenizer.
inline std::string nemo_sample(const std::string& config) {
  return tar_file({.name = "./model_config.yaml"}, config) +
         tar_file({.name = "./model_weights.ckpt"},
                  torch_sample(pickled::whole(pickled::ordered_dict()), TorchForm::kZip)) +
         tar_file({.name = "./3f_tokenizer.model"}, nemo_tokenizer_sample()) + tar_end();
}

// --- manifests

inline std::string manifest_line_sample(int64_t number) {
  return fmt::format(
      R"({{"audio_filepath": "a/{0}.flac", "duration": {1}, "text": "line {0}", "speaker": "s{2}"}})",
      number, 1.0 + static_cast<double>(number % 100) / 8.0, number % 7);
}

inline std::string feature_line_sample() {
  return R"({"feature_filepath": "f.f16", "frame_offset": 99, "num_frames": 149, "feature_dim": 13, )"
         R"("duration": 1.49, "text": "enter five"})";
}

inline std::string segment_line_sample() {
  return R"({"audio_filepath": "a", "duration": 3, "text": "a b", "segments": [)"
         R"({"offset": 0, "duration": 1.5, "text": "a"}, )"
         R"({"offset": 2, "duration": 1, "text": "b"}]})";
}

// Lines with all that one of audio may have, and a blank one.
inline std::string manifest_sample() {
  return manifest_line_sample(1) + "\n" +
         R"({"audio_filepath": "b.wav", "offset": 0.5, "duration": 1.25, "text": "żó\u0142", "lang": null})"
         "\r\n\n" +
         manifest_line_sample(2);
}

// --- audio

// WAV of 16 bits in several forms.
inline std::vector<std::string> wav_samples() {
  const std::vector<int16_t> samples = noise_samples(24);
  return {wav_file(samples), wav_file(samples, {.channels = 2, .is_extensible = true}),
          wav_file(samples, {.channels = 3,
                             .data_bytes = 0xFFFFFFFF,
                             .before_format = riff_chunk("JUNK", "12345678"),
                             .before_data = riff_chunk("LIST", "odd")})};
}

// --- language models

// In ARPA's form, of words up to three.
inline std::string arpa_sample() {
  return "made for a test\n"
         "\\data\\\n"
         "ngram 1=5\n"
         "ngram 2=3\n"
         "ngram 3=1\n"
         "\n"
         "\\1-grams:\n"
         "-99\t<s>\t-0.5\n"
         "-1.0\t</s>\n"
         "-2.0\t<unk>\t-0.1\n"
         "-0.7\tcat\t-0.3\n"
         "-0.8\tsits\t-0.2\n"
         "\n"
         "\\2-grams:\n"
         "-0.4\t<s> cat\t-0.25\n"
         "-0.3\tcat sits\t-0.15\n"
         "-0.2\tsits </s>\n"
         "\n"
         "\\3-grams:\n"
         "-0.1\t<s> cat sits\n"
         "\n"
         "\\end\\\n";
}

}  // namespace sotto::test
