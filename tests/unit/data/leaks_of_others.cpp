// Of the address sanitizer's build alone: libsndfile 1.2 loses 6 kB whenever it refuses a broken
// OGG file. What we lose ourselves is still reported.

// NOLINTNEXTLINE: the sanitizer looks for this name
extern "C" const char* __lsan_default_suppressions();

// NOLINTNEXTLINE
extern "C" const char* __lsan_default_suppressions() {
  return "leak:vorbis_info_init\n";
}
