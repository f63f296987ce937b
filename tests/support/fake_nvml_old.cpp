// A stand-in for the library of an old driver: it finds one GPU, knows its name, and has none of
// the other functions.
#include <cstring>

namespace {

int device = 0;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
  *count = 1;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int, void** handle) {
  *handle = &device;
  return 0;
}

int nvmlDeviceGetName(void*, char* name, unsigned int) {
  std::strcpy(name, "Old card");
  return 0;
}

}  // extern "C"
