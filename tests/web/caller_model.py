"""A model that answers by calling a tool: each token is followed by the one that was written after it. Its weights are that
table, attention and feed-forward are zero; its chat template picks where it begins, by what the conversation came to."""
import json
import os
import struct

HIDDEN = 64
# Start of an answer, and its pieces. Each piece is one unique token. The call has the format of Qwen and Hermes models.
ANSWERS = {
    '<|call|>': ['I look.', '\n<tool_call>', '\n{"name": "weather", ', '"arguments": ', '{"place": "Wien"}}\n', '</tool_call>'],
    '<|tell|>': ['It', ' is', ' sunny', '.'],
}
TEMPLATE = '''{# calls are written <tool_call>JSON</tool_call> #}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% endfor %}{% if tools and messages[-1].role != 'tool' %}<|call|>{% else %}<|tell|>{% endif %}'''


def letters():
    """The characters by which tokenizers of GPT-2's kind write bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return {b: chr(b) if b in plain else chr(256 + sum(c not in plain for c in range(b))) for b in range(256)}


def write(folder):
    letter, ends = letters(), ['<|end|>', *ANSWERS]
    vocab = {letter[b]: b for b in range(256)}
    special = {name: 256 + i for i, name in enumerate(ends)}
    vocab.update(special)
    following = {}
    for begin, pieces in ANSWERS.items():
        last = special[begin]
        for piece in pieces:
            token = vocab.setdefault(''.join(letter[b] for b in piece.encode()), len(vocab))
            following[last] = token
            last = token
        following[last] = special['<|end|>']
    count = len(vocab)
    ends_at = {'eos_token_id': special['<|end|>'], 'bos_token_id': special['<|end|>']}
    files = {
        'config.json': {
            'architectures': ['LlamaForCausalLM'], 'model_type': 'llama', 'torch_dtype': 'float32', 'hidden_size': HIDDEN,
            'intermediate_size': HIDDEN, 'num_hidden_layers': 1, 'num_attention_heads': 1, 'num_key_value_heads': 1,
            'head_dim': HIDDEN, 'vocab_size': count, 'max_position_embeddings': 2048, 'rms_norm_eps': 1e-6,
            'rope_theta': 10000.0, 'hidden_act': 'silu', 'tie_word_embeddings': False, **ends_at},
        'generation_config.json': ends_at,
        'tokenizer_config.json': {
            'tokenizer_class': 'PreTrainedTokenizerFast', 'eos_token': '<|end|>', 'chat_template': TEMPLATE,
            'clean_up_tokenization_spaces': False},
        'tokenizer.json': {
            'version': '1.0', 'truncation': None, 'padding': None, 'normalizer': None, 'post_processor': None,
            'added_tokens': [{'id': id, 'content': name, 'single_word': False, 'lstrip': False, 'rstrip': False,
                              'normalized': False, 'special': True} for name, id in special.items()],
            'pre_tokenizer': {'type': 'ByteLevel', 'add_prefix_space': False, 'trim_offsets': True, 'use_regex': True},
            'decoder': {'type': 'ByteLevel', 'add_prefix_space': True, 'trim_offsets': True, 'use_regex': True},
            'model': {'type': 'BPE', 'dropout': None, 'unk_token': None, 'continuing_subword_prefix': None,
                      'end_of_word_suffix': None, 'fuse_unk': False, 'byte_fallback': False, 'vocab': vocab, 'merges': []}},
    }
    for name, value in files.items():
        with open(os.path.join(folder, name), 'w', encoding='utf-8') as out:
            json.dump(value, out)

    square = [[0.0] * HIDDEN] * HIDDEN
    embedding, head = ([[0.0] * HIDDEN for _ in range(count)] for _ in range(2))
    for i, (token, after) in enumerate(following.items()):
        embedding[token][i] = 1.0
        head[after][i] = 1.0
    layer = 'model.layers.0.'
    tensors = {'model.embed_tokens.weight': embedding, 'lm_head.weight': head, 'model.norm.weight': [[1.0] * HIDDEN],
               layer + 'input_layernorm.weight': [[1.0] * HIDDEN], layer + 'post_attention_layernorm.weight': [[1.0] * HIDDEN]}
    for name in 'self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj', 'self_attn.o_proj', 'mlp.gate_proj', 'mlp.up_proj', \
            'mlp.down_proj':
        tensors[layer + name + '.weight'] = square
    heads, data = {}, b''
    for name, rows in tensors.items():
        values = struct.pack('<%df' % (len(rows) * HIDDEN), *(v for row in rows for v in row))
        shape = [HIDDEN] if 'norm' in name else [len(rows), HIDDEN]
        heads[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + len(values)]}
        data += values
    text = json.dumps(heads).encode()
    text += b' ' * (-len(text) % 8)
    with open(os.path.join(folder, 'model.safetensors'), 'wb') as out:
        out.write(struct.pack('<Q', len(text)) + text + data)
