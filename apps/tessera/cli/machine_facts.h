// What the system says about the machine.
#pragma once

#include <string>

namespace tessera {

std::string processor_name();  // "AMD EPYC"; "a processor" where the system does not say

}  // namespace tessera
