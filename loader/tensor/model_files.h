/* Names of the text files of a model, in Hugging Face folders and packs. */
#ifndef DGL_LOADER_MODEL_FILES_H
#define DGL_LOADER_MODEL_FILES_H

#define FILE_CONFIG            "config.json"
#define FILE_GENERATION_CONFIG "generation_config.json"
#define FILE_TOKENIZER         "tokenizer.json"
#define FILE_TOKENIZER_CONFIG  "tokenizer_config.json"
#define FILE_SPECIAL_TOKENS    "special_tokens_map.json"
#define FILE_ADDED_TOKENS      "added_tokens.json"
#define FILE_CHAT_JINJA        "chat_template.jinja"
#define FILE_CHAT_JSON         "chat_template.json"
#define FILE_MODULES           "modules.json"

#endif
