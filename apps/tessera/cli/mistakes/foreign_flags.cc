#include "cli/mistakes/foreign_flags.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/text/text.h"

namespace tessera {
namespace {

struct ForeignFlag {
  std::string_view commands;  // that it is typed after, with commas; empty: after any
  std::string_view names;     // with commas
  std::string_view advice;
};

constexpr std::string_view kTalks = "generate,chat";
constexpr std::string_view kServes = "serve,chat,generate";
constexpr std::string_view kPlans = "plan,search";
constexpr std::string_view kRunFile = "config,config_file,config_path,job.config_file,run_file,c,f";

constexpr ForeignFlag kFlags[] = {
    // train, plan, search
    {"train", "gpus,num_gpus,ngpus,nproc_per_node,nproc,np,world_size,nnodes",
     "the mesh says how many ranks there are: --mesh dp=4"},
    {kPlans, "gpus,num_gpus,world_size,devices",
     "the cluster says how many there are: --cluster h100-64"},
    {"search", "mesh", "a search looks for the mesh; --tp, --pp, --dp, --cp and --ep hold it fast"},
    {"train", "wandb,wandb_project,tensorboard,tensorboard_dir",
     "--set logging.tensorboard=true writes events while it trains, 'tessera metrics RUN "
     "--tensorboard DIR' afterwards"},
    {"plan", "output,out,o", "it prints to standard output: write '> FILE' behind it"},
    // Models to talk with
    {"generate", "model,model_path,model_name_or_path,m,checkpoint,ckpt,hf",
     "here it is --run DIR, which takes a run, a checkpoint or a Hugging Face folder"},
    {"chat", "model,model_path,model_name_or_path,m,run,checkpoint,ckpt,hf",
     "the model goes without a flag: tessera chat DIR, which takes a run, a checkpoint or a "
     "Hugging Face folder"},
    {"generate", "p,text,input", "here it is --prompt"},
    {"generate", "file", "--prompt \"$(cat FILE)\" is a text, --in FILE.jsonl a file of requests"},
    {"generate", "system,sys,messages",
     "it continues a text; 'tessera chat DIR --system TEXT' knows conversations"},
    {"chat", "p,prompt,i,interactive,cnv,conversation",
     "it asks for what you say, or reads lines from standard input: echo TEXT | tessera chat DIR"},
    {"chat", "sys,system_prompt", "here it is --system"},
    {kTalks, "n,n_predict,predict,num_predict,max_new_tokens,max_tokens,num_tokens,length",
     "here it is --tokens"},
    {kTalks, "temp", "here it is --temperature"},
    {kTalks, "s", "here it is --seed"},
    {kTalks, "r,reverse_prompt,stop_sequences", "here it is --stop"},
    {kTalks, "do_sample,greedy", "--temperature 0 takes the most likely token, above 0 samples"},
    {kTalks, "repeat_penalty,repetition_penalty,presence_penalty,frequency_penalty,logit_bias",
     "'tessera serve' and requests of 'generate --in' take penalties and biases of tokens"},
    {"generate", "num_return_sequences,num_samples",
     "a request of --in takes \"n\": {\"prompt\": \"...\", \"n\": 2}"},
    {"generate", "b,batch_size,parallel,np,max_num_seqs", "here it is --in-flight"},
    // Engines: words of vLLM, SGLang and llama.cpp
    {"serve", "model,model_path,m,run,hf,checkpoint,ckpt",
     "the model goes without a flag: tessera serve DIR, which takes a run, a checkpoint or a "
     "Hugging Face folder"},
    {kServes, "tensor_parallel_size,tp_size,tp", "here it is --mesh tp=N"},
    {kServes, "pipeline_parallel_size,pp_size,pp", "here it is --mesh pp=N"},
    {kServes, "data_parallel_size,dp_size,dp,num_replicas", "here it is --mesh dp=N"},
    {kServes, "enable_expert_parallel,expert_parallel_size,ep_size,ep", "here it is --mesh ep=N"},
    {kServes, "gpus,num_gpus,world_size,tensor_split,split_mode",
     "the mesh says how many ranks there are: --mesh tp=2,pp=2"},
    {kServes, "max_model_len,context_length,ctx_size,c,num_ctx,max_seq_len,n_ctx",
     "here it is --max-context"},
    {"serve", "max_num_seqs,max_running_requests,parallel,np,max_batch_size",
     "here it is --max-sequences"},
    {"serve", "max_num_batched_tokens,chunked_prefill_size,max_prefill_tokens,b,ubatch_size",
     "here it is --token-budget"},
    {"serve", "gpu_memory_utilization,mem_fraction_static,kv_cache_memory_bytes",
     "memory is said in GiB, of all ranks together: --memory-gib X; 'tessera plan --serve' shows "
     "what it is for"},
    {"serve", "block_size,page_size", "here it is --page"},
    {"serve", "num_gpu_blocks_override,max_total_tokens", "here it is --pages"},
    {"serve", "served_model_name,alias,a", "here it is --name"},
    {"serve", "api_key",
     "a key on a command line is seen by others: --api-key-file FILE, or "
     "TESSERA_API_KEY in the environment"},
    {"serve", "enable_prefix_caching,enable_chunked_prefill,cache_prompt",
     "it does so without a flag (--no-prefix-cache turns the prefix cache off)"},
    {"serve", "no_enable_prefix_caching,disable_radix_cache", "here it is --no-prefix-cache"},
    {"serve", "enable_log_requests,log_level,log_file", "here it is --log-requests"},
    {"serve", "max_queue_size,max_queued_requests", "here it is --queue"},
    {"serve", "swap_space,cpu_offload_gb",
     "nothing is moved out of memory: a sequence that has to wait is computed again"},
    {"serve", "ssl_keyfile,ssl_certfile,ssl_key_file,ssl_cert_file",
     "there is no TLS here: put a proxy in front of it, or use ssh -L"},
    {kServes, "quantization,q,load_format,kv_cache_dtype,cache_type_k",
     "weights and cache are f32, bf16 or f64: --dtype"},
    {kServes, "enable_lora,lora_modules,lora,speculative_config,draft_model,md",
     "LoRA and speculation are not there"},
    {kServes, "n_gpu_layers,ngl,gpu_layers,gpu_memory", "serving runs on CPUs as yet"},
    {kTalks, "t,n_threads", "here it is --threads"},
    {"serve", "t,n_threads", "each rank takes its share of the cores by itself"},
    {kServes, "trust_remote_code", "no code of a model's folder is ever run"},
    // bench serve
    {"bench serve", "url,base_url,host,endpoint,server", "here it is --target http://HOST:PORT"},
    {"bench serve", "port", "here it is --target http://127.0.0.1:PORT"},
    {"bench serve", "request_rate,qps", "here it is --rate"},
    {"bench serve", "max_concurrency,concurrent,users", "here it is --concurrency"},
    {"bench serve", "num_prompts,num_requests,n", "here it is --requests"},
    {"bench serve", "random_input_len,input_len,isl", "here it is --prompt-tokens"},
    {"bench serve", "random_output_len,output_len,osl,max_tokens", "here it is --answer-tokens"},
    {"bench serve", "random_range_ratio", "here it is --spread"},
    {"bench serve", "random_prefix_len", "a share of the prompt is shared: --shared-prefix X"},
    {"bench serve", "goodput", "here it is --slo \"ttft=200,tpot=20\""},
    {"bench serve", "dataset_name,dataset,dataset_path",
     "prompts are made from --seed: --prompt-tokens and --text or --chat say which"},
    {"bench serve", "api_key",
     "a key on a command line is seen by others: --api-key-file FILE, or "
     "TESSERA_API_KEY in the environment"},
    {"bench decode", "model,m,run,hf", "the model goes without a flag: tessera bench decode DIR"},
    {"bench decode", "batch_size,batch_sizes,b", "here it is --batch"},
    {"bench decode", "input_len,prompt_tokens", "here it is --prompt"},
    {"bench decode", "output_len,ctx_size", "here it is --context"},
    // Text
    {"data prepare", "input,inputs,i",
     "files and folders go without a flag: tessera data prepare "
     "texts/ more.jsonl --tokenizer DIR --out DIR"},
    {"data prepare", "output,output_prefix,o,destination_path", "here it is --out"},
    {"data prepare", "tokenizer_model,tokenizer_name,tokenizer_name_or_path,vocab_file,merge_file",
     "here it is --tokenizer, a folder with a tokenizer.json, or the file"},
    {"data prepare", "tokenizer_type", "tokenizer.json says it: --tokenizer DIR"},
    {"data prepare", "json_keys,text_key,text_column,column", "here it is --key"},
    {"data prepare", "workers,num_workers,num_proc,jobs,j", "here it is --threads"},
    {"data prepare", "append_eod,append_eos", "each document ends with --end TOKEN without it"},
    {"data prepare", "split,valid_split,validation,val", "here it is --valid"},
    {"data prepare", "vocab,vocab_size",
     "the tokenizer has it; 'tessera data tokenizer train' "
     "takes --vocab"},
    {"data prepare,data tokenizer train", "force,f", "here it is --overwrite, of 'data prepare'"},
    {"data tokenizer train", "vocab_size,n", "here it is --vocab"},
    {"data tokenizer train", "special_tokens", "here it is --special TOKEN, once for each"},
    {"data tokenizer train", "input,files,i", "files go without a flag"},
    {"data tokenizer train", "output,o,save,tokenizer", "here it is --out"},
    {"data tokenizer train", "pattern,pre_tokenizer,regex", "here it is --split gpt2|llama3|qwen2"},
    {"data chat", "chat_template", "here it is --template"},
    {"data chat", "tokenizer,model", "here it is --template DIR, a folder that has one"},
    // Models that were trained
    {"eval", "run,model,model_path,model_name_or_path,hf,checkpoint,m",
     "the model goes without a flag: tessera eval DIR --data FILE"},
    {"eval", "tasks,task,dataset,text,file,input",
     "here it is --data FILE: a text, a set of tokens, or a .jsonl of questions with choices"},
    {"eval", "batch_size,b", "it chooses that itself"},
    {"eval", "num_fewshot", "a question of --data holds its examples itself, in \"query\""},
    {"export-hf", "run,model,checkpoint,m",
     "the run goes without a flag: tessera export-hf RUN OUT"},
    {"export-hf", "out,output,output_dir,o,save_directory",
     "the folder goes without a flag: tessera export-hf RUN OUT"},
    {"export-hf", "max_shard_size", "here it is --shard-size"},
    {"checkpoint show,checkpoint verify", "step,iteration",
     "a step is named by its folder: RUN/checkpoints/step-00000100"},
    {"checkpoint ls,checkpoint show,checkpoint verify", "run,path",
     "the place goes without a flag: PATH"},
    {"", "verbose", "progress is shown unless -q is given"},
    {"", "v", "progress is shown unless -q is given; the version is -V"},
};

bool has(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = split(list, ',');
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string_view foreign_flag_advice(std::string_view command, std::string_view name) {
  const auto found = std::find_if(std::begin(kFlags), std::end(kFlags), [&](const auto& flag) {
    return (flag.commands.empty() || has(flag.commands, command)) && has(flag.names, name);
  });
  return found == std::end(kFlags) ? std::string_view() : found->advice;
}

bool names_run_file(std::string_view name) { return has(kRunFile, name); }

}  // namespace tessera
