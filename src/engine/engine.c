/* engine.c - finds engines. MPI has no binary interface that all share, so there is one plug-in for each MPI that Tandem was
 * built with, and the one whose launcher started this process is loaded. */
#include "engine/engine.h"

#include "core/config.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who started us, by what it exports. srun offers PMIx, which Open MPI understands, or PMI, which MPICH does. */
static const char *mpi_of_launcher(void)
{
    const char *chosen = tdmi_config_text(TDMI_CONFIG_MPI);
    if (strcmp(chosen, "auto") != 0)
        return chosen;
    if (getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMIX_RANK") != NULL)
        return "openmpi";
    if (getenv("PMI_RANK") != NULL || getenv("PMI_FD") != NULL)
        return "mpich";
    return NULL;
}

/* Where the plug-ins are: TANDEM_PLUGINS, or beside this library. */
static void plugin_path(const char *file, char path[PATH_MAX])
{
    Dl_info info;
    const char *folder = tdmi_config_text(TDMI_CONFIG_PLUGINS), *end = NULL;
    int length = (int)strlen(folder);
    if (length == 0 && dladdr((void *)(uintptr_t)&tdmi_engine_find, &info) != 0) {
        folder = info.dli_fname;
        end = strrchr(folder, '/');
        length = end != NULL ? (int)(end - folder) : 0;
    }
    snprintf(path, PATH_MAX, "%.*s%s%s", length, folder, length > 0 ? "/" : "", file);
}

static tdm_status load_mpi(const tdmi_engine_ops **out)
{
    char file[64], path[PATH_MAX];
    const char *mpi = mpi_of_launcher();
    if (mpi == NULL)
        return tdmi_fail(TDM_ERR_INVALID, "engine mpi needs mpirun or srun: nothing in the environment says that an MPI started this "
                         "process. Start it with mpirun of Open MPI or MPICH, or with srun --mpi=pmix or --mpi=pmi2");
    if (strcmp(mpi, "openmpi") != 0 && strcmp(mpi, "mpich") != 0)
        return tdmi_fail(TDM_ERR_INVALID, "TANDEM_MPI is \"%s\"; there are auto, openmpi and mpich", mpi);
    snprintf(file, sizeof file, "tandem_mpi_%s.so", mpi);
    plugin_path(file, path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* global: Open MPI loads parts of itself that look for its symbols */
    if (handle == NULL)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "engine mpi: %s cannot be loaded: %s. It is built where %s is found; TANDEM_PLUGINS "
                         "names its folder if it has moved", path, dlerror(), strcmp(mpi, "mpich") == 0 ? "libmpich-dev"
                                                                                                        : "libopenmpi-dev");
    const tdmi_engine_ops *ops = dlsym(handle, "tdmi_engine_plugin");
    if (ops == NULL || ops->version != TDMI_ENGINE_VERSION)
        return tdmi_fail(TDM_ERR_UNSUPPORTED, "engine mpi: %s belongs to another version of Tandem", path);
    *out = ops;
    return TDM_OK;
}

tdm_status tdmi_engine_find(const char *name, const tdmi_engine_ops **out)
{
    *out = NULL;
    if (strcmp(name, "native") == 0)
        return TDM_OK;
    if (strcmp(name, "mpi") == 0)
        return load_mpi(out);
    if (strcmp(name, "nccl") == 0) {
        *out = &tdmi_engine_nccl;
        return TDM_OK;
    }
    return tdmi_fail(TDM_ERR_INVALID, "there is no engine \"%s\"; there are native, mpi and nccl", name);
}
