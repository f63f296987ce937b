#include "sotto/core/formats/nemo_writer.h"

#include "sotto/core/files/atomic_folder.h"
#include "sotto/core/formats/tar_writer.h"
#include "sotto/core/formats/torch_writer.h"

namespace sotto {

namespace {

constexpr const char* kWeightsFolder = "model_weights";

void put_text(AtomicFile& file, const std::string& text) {
  file.write(std::as_bytes(std::span(text)));
}

void put_member(AtomicFile& file, const std::string& name, const std::string& content) {
  put_text(file, tar_file_header("./" + name, content.size()));
  put_text(file, content);
  put_text(file, tar_padding(content.size()));
}

}  // namespace

void write_nemo_archive(const std::filesystem::path& path, const NemoContent& content) {
  AtomicFile file(path);
  for (const NemoContent::Member& member : content.members)
    put_member(file, member.name, member.content);
  put_member(file, "model_config.yaml", content.config);
  const TorchWriter weights(content.weights, kWeightsFolder);
  put_text(file, tar_file_header("./model_weights.ckpt", weights.size()));
  weights.write([&](std::span<const std::byte> bytes) { file.write(bytes); }, content.fetch);
  put_text(file, tar_padding(weights.size()));
  put_text(file, tar_end_blocks());
  file.commit();
}

}  // namespace sotto
