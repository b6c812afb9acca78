// The CUDA bodies of the kernels: each has the type of the kernel whose name it bears, is called
// after the arguments were checked, and puts its work on ctx.gpu's stream without waiting for it.
#pragma once

#include "kernels/experts.h"
#include "kernels/kernels.h"

namespace tessera::kernels::cuda {

decltype(kernels::linear) linear;
decltype(kernels::linear_dx) linear_dx;
decltype(kernels::linear_dw) linear_dw;
decltype(kernels::linear_bias) linear_bias;
decltype(kernels::linear_dx_gelu) linear_dx_gelu;
decltype(kernels::linear_dw_bias) linear_dw_bias;
decltype(kernels::embedding) embedding;
decltype(kernels::embedding_dw) embedding_dw;
decltype(kernels::rms_norm) rms_norm;
decltype(kernels::add_rms_norm) add_rms_norm;
decltype(kernels::rms_norm_dx) rms_norm_dx;
decltype(kernels::rms_norm_dw) rms_norm_dw;
decltype(kernels::rms_norm_grad) rms_norm_grad;
decltype(kernels::rope) rope;
decltype(kernels::attention) attention;
decltype(kernels::attention_grad) attention_grad;
decltype(kernels::attention_part) attention_part;
decltype(kernels::attention_grad_part) attention_grad_part;
decltype(kernels::split_columns) split_columns;
decltype(kernels::join_columns) join_columns;
decltype(kernels::swiglu) swiglu;
decltype(kernels::swiglu_grad) swiglu_grad;
decltype(kernels::layer_norm) layer_norm;
decltype(kernels::add_layer_norm) add_layer_norm;
decltype(kernels::layer_norm_dx) layer_norm_dx;
decltype(kernels::layer_norm_dw) layer_norm_dw;
decltype(kernels::layer_norm_dw_bias) layer_norm_dw_bias;
decltype(kernels::layer_norm_grad) layer_norm_grad;
decltype(kernels::add_bias) add_bias;
decltype(kernels::bias_dw) bias_dw;
decltype(kernels::gelu) gelu;
decltype(kernels::gelu_grad) gelu_grad;
decltype(kernels::add_positions) add_positions;
decltype(kernels::positions_dw) positions_dw;
decltype(kernels::head_norm) head_norm;
decltype(kernels::head_norm_dx) head_norm_dx;
decltype(kernels::head_norm_dw) head_norm_dw;
decltype(kernels::add) add;
decltype(kernels::dropout) dropout;
decltype(kernels::cross_entropy_stats) cross_entropy_stats;
decltype(kernels::cross_entropy_loss) cross_entropy_loss;
decltype(kernels::cross_entropy_grad) cross_entropy_grad;
decltype(kernels::sum_squares) sum_squares;
decltype(kernels::add_metrics) add_metrics;
decltype(kernels::count_tokens) count_tokens;
decltype(kernels::adamw) adamw;
decltype(kernels::fill_zero) fill_zero;
decltype(kernels::copy) copy;
decltype(kernels::accumulate_into) accumulate_into;
decltype(kernels::scale) scale;

decltype(kernels::router) router;
decltype(kernels::router_grad) router_grad;
decltype(kernels::router_stats) router_stats;
decltype(kernels::router_stats_grad) router_stats_grad;
decltype(kernels::dispatch_rows) dispatch_rows;
decltype(kernels::dispatch_rows_grad) dispatch_rows_grad;
decltype(kernels::combine_rows) combine_rows;
decltype(kernels::combine_rows_grad) combine_rows_grad;
decltype(kernels::expert_linear) expert_linear;
decltype(kernels::expert_linear_dx) expert_linear_dx;
decltype(kernels::expert_linear_dw) expert_linear_dw;
decltype(kernels::expert_swiglu) expert_swiglu;
decltype(kernels::expert_swiglu_grad) expert_swiglu_grad;
decltype(kernels::balance_totals) balance_totals;
decltype(kernels::balance_loss) balance_loss;
decltype(kernels::balance_grad) balance_grad;

}  // namespace tessera::kernels::cuda
