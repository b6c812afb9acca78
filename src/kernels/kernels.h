// Every kernel. A file that calls a few includes the headers of their families.
#pragma once

#include "kernels/attention.h"
#include "kernels/elementwise.h"
#include "kernels/embedding.h"
#include "kernels/experts.h"
#include "kernels/float8.h"
#include "kernels/linear.h"
#include "kernels/loss.h"
#include "kernels/movement.h"
#include "kernels/norms.h"
#include "kernels/optimizer.h"
#include "kernels/serving.h"
