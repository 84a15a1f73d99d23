/* tokens.h - a file as one long row of tokens, split for training and validation, cut into windows.
 *
 * Formats: any file as bytes (vocabulary 256), or 16-bit tokens, little endian, as llm.c (1,024-byte header: magic 20240520,
 * version 1, number of tokens) and nanoGPT (no header) write them. Tokens are read from the file when they are needed, never
 * mapped: a file that shrinks under a running job is an error with a text, not a signal. Every token is checked against the
 * vocabulary, those of the first GiB already when the file is opened. */
#ifndef TDMI_DATA_TOKENS_H
#define TDMI_DATA_TOKENS_H

#include "core/error.h"

typedef enum {
    TDMI_TOKENS_AUTO,  /* 16-bit tokens if the name ends in .bin, else bytes */
    TDMI_TOKENS_BYTES, /* natural vocabulary 256 */
    TDMI_TOKENS_U16,   /* natural vocabulary 50257, GPT-2's */
} tdmi_token_kind;

typedef struct tdmi_tokens tdmi_tokens;

/* Opens and checks a file of tokens.
 *   vocab   ids must be below it; 0: the natural vocabulary of the format
 * Errors  TDM_ERR_BAD_FILE missing, unreadable, no regular file, empty, odd length, header cut or of another version, token
 *         count that does not match the size, token beyond the vocabulary (its place and value) */
tdm_status tdmi_tokens_open(const char *path, tdmi_token_kind kind, uint32_t vocab, tdmi_tokens **out);
void tdmi_tokens_close(tdmi_tokens *tokens); /* NULL is fine */

uint64_t tdmi_tokens_count(const tdmi_tokens *tokens);
uint32_t tdmi_tokens_vocab(const tdmi_tokens *tokens);
const char *tdmi_tokens_path(const tdmi_tokens *tokens);
/* "bytes" or "uint16". */
const char *tdmi_tokens_format(const tdmi_tokens *tokens);

/* out [count] = tokens [first, first + count).  Any thread.
 * Errors  TDM_ERR_INVALID beyond the end | TDM_ERR_BAD_FILE the file shrank, cannot be read, or a token is too large */
tdm_status tdmi_tokens_read(const tdmi_tokens *tokens, uint64_t first, size_t count, int32_t *out);

/* A range of tokens cut into windows: window i is `seq` tokens from first + i seq on, with the token that follows each. */
typedef struct {
    const tdmi_tokens *tokens; /* borrowed */
    uint64_t first, count;     /* the range */
    uint32_t seq;
    uint64_t windows;          /* (count - 1) / seq */
} tdmi_windows;

/* The last floor(val_fraction x count) tokens are for validation, the others for training; val_fraction in [0, 1). Either may
 * come out without a window: whoever needs one says so. */
tdm_status tdmi_tokens_split(const tdmi_tokens *tokens, double val_fraction, uint32_t seq, tdmi_windows *train,
                             tdmi_windows *val);
/* out [seq + 1]: the window's tokens and the one behind them. */
tdm_status tdmi_windows_read(const tdmi_windows *windows, uint64_t index, int32_t *out);

#endif
