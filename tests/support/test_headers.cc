// The precompiled headers of tests need a source to belong to.
#include "support/test_headers.h"
