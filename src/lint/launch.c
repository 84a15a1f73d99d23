/* launch.c - a launch line and a file of settings, read. */
#include "lint/launch.h"

#include "core/memory.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1u << 20)

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* One word from *at on, unquoted into `to`; false: a quote is open. A backslash before a line's end joins the lines. */
static bool take_word(const char **at, char **to)
{
    const char *p = *at;
    char *out = *to, quote = '\0';
    for (; *p != '\0' && (quote != '\0' || !is_space(*p)); p++) {
        if (quote == '\0' && (*p == '\'' || *p == '"')) {
            quote = *p;
        } else if (*p == quote) {
            quote = '\0';
        } else if (*p == '\\' && quote != '\'' && p[1] != '\0') {
            p++;
            if (*p == '\n')
                continue;
            if (quote == '"' && strchr("\"\\$`", *p) == NULL)
                *out++ = '\\';
            *out++ = *p;
        } else {
            *out++ = *p;
        }
    }
    *out++ = '\0';
    *at = p;
    *to = out;
    return quote == '\0';
}

static tdm_status split(const char *line, tdmi_launch *launch)
{
    const size_t nbytes = strlen(line);
    launch->text = tdmi_malloc(2 * nbytes + 2, "launch line");
    launch->word = tdmi_calloc(nbytes / 2 + 1, sizeof *launch->word, "launch line");
    if (launch->text == NULL || launch->word == NULL)
        return TDM_ERR_NO_MEMORY;
    char *to = launch->text;
    for (const char *at = line; *at != '\0';) {
        if (is_space(*at) || (*at == '\\' && at[1] == '\n')) {
            at += *at == '\\' ? 2 : 1;
            continue;
        }
        const int column = (int)(at - line) + 1;
        const char *text = to;
        if (!take_word(&at, &to))
            return tdmi_fail(TDM_ERR_INVALID, "--launch: the quote in word %zu is not closed", launch->words + 1);
        launch->word[launch->words++] = (tdmi_word){text, column};
    }
    return launch->words > 0 ? TDM_OK : tdmi_fail(TDM_ERR_INVALID, "--launch is empty: give the line that starts the job");
}

/* The length of NAME in NAME=VALUE; 0: it is no assignment. */
static size_t name_length(const char *text)
{
    size_t length = 0;
    if (!isalpha((unsigned char)text[0]) && text[0] != '_')
        return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return text[length] == '=' ? length : 0;
}

/* Cuts "NAME=VALUE", which lives as long as the launch. */
static tdm_status add_setting(tdmi_launch *launch, char *assignment, const char *file, int line, int column)
{
    tdmi_setting *grown = tdmi_with_room(launch->setting, launch->settings, &launch->settings_capacity, sizeof *grown, "settings");
    if (grown == NULL)
        return TDM_ERR_NO_MEMORY;
    launch->setting = grown;
    char *equals = strchr(assignment, '=');
    *equals = '\0';
    launch->setting[launch->settings++] = (tdmi_setting){assignment, equals + 1, file, line, column};
    return TDM_OK;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool ends_in_py(const char *word)
{
    const size_t length = strlen(word);
    return length > 3 && strcmp(word + length - 3, ".py") == 0;
}

static size_t first_script(const tdmi_launch *launch, size_t from)
{
    while (from < launch->words && !ends_in_py(launch->word[from].text))
        from++;
    return from;
}

/* python [-u] [-m MODULE]: PyTorch's launchers are modules too. */
static tdmi_launcher launcher_of_python(tdmi_launch *launch, size_t python)
{
    for (size_t i = python + 1; i + 1 < launch->words && launch->word[i].text[0] == '-'; i++) {
        if (strcmp(launch->word[i].text, "-m") != 0)
            continue;
        const char *module = launch->word[i + 1].text;
        const bool run = strcmp(module, "torch.distributed.run") == 0, old = strcmp(module, "torch.distributed.launch") == 0;
        if (run || old)
            launch->program = i + 1;
        return run ? TDMI_TORCHRUN : old ? TDMI_TORCH_LAUNCH : TDMI_PYTHON;
    }
    return TDMI_PYTHON;
}

/* `srun torchrun ...` is torchrun's; the first word decides where there is nothing of PyTorch behind it. */
static tdmi_launcher launcher_of(tdmi_launch *launch)
{
    static const char *const many[] = {"srun", "mpirun", "mpiexec", "mpiexec.hydra", "orterun"};
    const char *first = base_name(launch->word[launch->program].text);
    for (size_t i = launch->program; i < launch->words && !ends_in_py(launch->word[i].text); i++) {
        const char *name = base_name(launch->word[i].text);
        const tdmi_launcher of_python = strncmp(name, "python", 6) == 0 ? launcher_of_python(launch, i) : TDMI_NO_LAUNCHER;
        if (strcmp(name, "torchrun") == 0) {
            launch->program = i;
            return TDMI_TORCHRUN;
        }
        if (tdmi_is_torch_launcher(of_python) || (of_python == TDMI_PYTHON && i == launch->program))
            return of_python;
    }
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        if (strcmp(first, many[i]) == 0)
            return TDMI_MANY_PROCESSES;
    return TDMI_OTHER_LAUNCHER;
}

size_t tdmi_launch_option(const char *word, char *name, size_t nbytes)
{
    size_t n = 0;
    for (; word[n] != '\0' && word[n] != '=' && n + 1 < nbytes; n++)
        name[n] = word[n] == '_' ? '-' : word[n];
    name[n] = '\0';
    return n;
}

/* --nproc-per-node 8, --nproc_per_node=8; gpu, auto and cpu stand for all there are. */
static int processes_of(const tdmi_launch *launch)
{
    for (size_t i = launch->program + 1; i < launch->script; i++) {
        char name[32];
        const char *word = launch->word[i].text;
        const size_t n = tdmi_launch_option(word, name, sizeof name);
        if (strcmp(name, "--nproc-per-node") != 0)
            continue;
        const char *value = word[n] == '=' ? word + n + 1 : i + 1 < launch->words ? launch->word[i + 1].text : "";
        return isdigit((unsigned char)value[0]) ? (int)strtol(value, NULL, 10) : -1;
    }
    return tdmi_is_torch_launcher(launch->launcher) ? 1 : 0;
}

static tdm_status understand(tdmi_launch *launch)
{
    size_t i = 0;
    if (strcmp(launch->word[0].text, "env") == 0)
        i++;
    for (; i < launch->words && name_length(launch->word[i].text) > 0; i++) {
        tdm_status status = add_setting(launch, (char *)launch->word[i].text, NULL, 0, launch->word[i].column);
        if (status != TDM_OK)
            return status;
    }
    if (i == launch->words)
        return tdmi_fail(TDM_ERR_INVALID, "--launch has assignments only: give the line that starts the job");
    launch->program = i;
    launch->launcher = launcher_of(launch);
    launch->script = first_script(launch, launch->program + 1);
    launch->processes = processes_of(launch);
    return TDM_OK;
}

static tdm_status load(const char *path, char **text_out)
{
    struct stat about;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot open %s", path);
    char *text = NULL;
    ssize_t n = 0;
    tdm_status status = TDM_OK;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_size > (off_t)FILE_BYTES_MAX)
        status = tdmi_fail(TDM_ERR_BAD_FILE, "%s is no file of settings: it has to be a regular file of at most %u bytes", path, FILE_BYTES_MAX);
    else if ((text = tdmi_malloc((size_t)about.st_size + 1, "settings")) == NULL)
        status = TDM_ERR_NO_MEMORY;
    else if ((n = read(fd, text, (size_t)about.st_size)) < 0)
        status = tdmi_fail_errno(TDM_ERR_BAD_FILE, errno, "cannot read %s", path);
    close(fd);
    if (status == TDM_OK) {
        text[n] = '\0';
        *text_out = text;
    } else {
        tdmi_free(text);
    }
    return status;
}

/* NAME=VALUE, `export NAME=VALUE`, "# ..."; quotes around a value are taken off. */
static tdm_status read_settings(const char *path, tdmi_launch *launch)
{
    tdm_status status = load(path, &launch->file);
    char *next = launch->file;
    for (int number = 1; status == TDM_OK && next != NULL; number++) {
        char *line = next, *end = line + strcspn(line, "\n");
        next = *end == '\n' ? end + 1 : NULL;
        *end = '\0';
        while (end > line && is_space(end[-1]))
            *--end = '\0';
        while (is_space(*line))
            line++;
        if (strncmp(line, "export", 6) == 0 && is_space(line[6]))
            for (line += 7; is_space(*line);)
                line++;
        if (line[0] == '\0' || line[0] == '#')
            continue;
        const size_t length = name_length(line);
        if (length == 0)
            return tdmi_fail(TDM_ERR_BAD_FILE, "%s line %d: \"%.40s\" is no NAME=VALUE", path, number, line);
        char *value = line + length + 1;
        if (end - value >= 2 && (*value == '"' || *value == '\'') && end[-1] == *value) {
            end[-1] = '\0';
            memmove(value, value + 1, strlen(value));
        }
        status = add_setting(launch, line, path, number, 0);
    }
    return status;
}

tdm_status tdmi_launch_read(const char *line, const char *env_file, tdmi_launch *out)
{
    tdmi_launch launch = {0};
    tdm_status status = env_file != NULL ? read_settings(env_file, &launch) : TDM_OK;
    if (status == TDM_OK && line != NULL) {
        status = split(line, &launch);
        if (status == TDM_OK)
            status = understand(&launch);
    }
    if (status != TDM_OK)
        tdmi_launch_free(&launch);
    else
        *out = launch;
    return status;
}

void tdmi_launch_free(tdmi_launch *launch)
{
    tdmi_free(launch->word);
    tdmi_free(launch->setting);
    tdmi_free(launch->text);
    tdmi_free(launch->file);
    *launch = (tdmi_launch){0};
}

const tdmi_setting *tdmi_launch_setting(const tdmi_launch *launch, const char *name)
{
    for (size_t i = launch->settings; i-- > 0;)
        if (strcmp(launch->setting[i].name, name) == 0)
            return &launch->setting[i];
    return NULL;
}
