// The one place that reads toml++: what a platform without files lacks for it goes before it here.
#pragma once

#include <toml++/toml.h>
