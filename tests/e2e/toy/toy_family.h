#pragma once

#include "sotto/models/family.h"

namespace sotto::models {

Family toy_family();

}  // namespace sotto::models
