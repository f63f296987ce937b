// Files of torch.save: whole ones, and pickles in files that are whole but for them.
#include "fuzz/fuzz_target.h"
#include "sotto/core/formats/torch_file.h"
#include "support/reader_checks.h"
#include "support/reader_samples.h"

namespace sotto::fuzz {

using test::TorchForm;

std::vector<std::string> seeds() {
  std::vector<std::string> seeds;
  for (const TorchForm form : {TorchForm::kZip, TorchForm::kZip64, TorchForm::kOld}) {
    const std::string pickle = test::pickle_sample(form == TorchForm::kOld);
    seeds.push_back(pickle);
    seeds.push_back(test::torch_sample(pickle, form));
  }
  return seeds;
}

void read(std::string_view input) {
  const std::string text(input);
  for (const std::string& bytes : {text, test::torch_sample(text, TorchForm::kZip),
                                   test::torch_sample(text, TorchForm::kOld)}) {
    const std::filesystem::path path = file_of(bytes);
    allow_refusal(path, [&] { test::check_tensor_file<TorchFile>(path); });
  }
}

}  // namespace sotto::fuzz
