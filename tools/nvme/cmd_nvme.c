/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fathom nvme: NVMe drives of this machine. Here: ls. Siblings: cmd_nvme_bind.c,
 * cmd_nvme_stat.c, cmd_nvme_smart.c, and nvme_source.c, which reaches a controller for them.
 */
#include "commands.h"
#include "json.h"
#include "nvme_source.h"

#include "fathom/base/error.h"
#include "nvme/pci.h"

#include <stdio.h>
#include <string.h>

/* ---- ls ---- */

/* The names of the namespaces' block devices, "nvme0n1 nvme0n2". */
static const char *disk_names(const struct fth_nvme_pci *pci, char text[FTH_NVME_PCI_TEXT])
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < pci->block_count; i++) {
		if (pci->blocks[i].partition || n + FTH_NVME_PCI_NAME + 1 > FTH_NVME_PCI_TEXT)
			continue;
		n += (size_t)snprintf(text + n, FTH_NVME_PCI_TEXT - n, "%s%s", n ? " " : "",
				      pci->blocks[i].name);
	}
	return text[0] ? text : "-";
}

static const char *or_dash(const char *text)
{
	return text[0] ? text : "-";
}

static void print_drive(const struct fth_nvme_pci *pci)
{
	char disks[FTH_NVME_PCI_TEXT], group[16] = "none";

	if (pci->iommu_group >= 0)
		snprintf(group, sizeof(group), "%d", pci->iommu_group);
	printf("%-13s %-9s %5s  %-24.24s %-20.20s %-14s ", pci->bdf, or_dash(pci->driver), group,
	       or_dash(pci->model), or_dash(pci->serial), disk_names(pci, disks));
	if (pci->use_count == 0)
		printf("-\n");
	for (unsigned i = 0; i < pci->use_count; i++)
		printf("%*s%s %s\n", i ? 92 : 0, "", pci->uses[i].name, pci->uses[i].what);
}

static void print_list(const struct fth_nvme_pci *list, int n)
{
	if (n == 0) {
		printf("No NVMe drive found on the PCI bus.\n");
		return;
	}
	printf("%-13s %-9s %5s  %-24s %-20s %-14s %s\n", "address", "driver", "group", "model",
	       "serial", "devices", "in use");
	for (int i = 0; i < n; i++)
		print_drive(&list[i]);
}

static void print_blocks_json(struct fth_json *j, const struct fth_nvme_pci *pci)
{
	fth_json_array(j, "blocks");
	for (unsigned i = 0; i < pci->block_count; i++) {
		fth_json_object(j, NULL);
		fth_json_string(j, "name", pci->blocks[i].name);
		fth_json_u64(j, "size", pci->blocks[i].size);
		fth_json_bool(j, "partition", pci->blocks[i].partition);
		fth_json_end(j);
	}
	fth_json_end(j);
	fth_json_array(j, "uses");
	for (unsigned i = 0; i < pci->use_count; i++) {
		fth_json_object(j, NULL);
		fth_json_string(j, "name", pci->uses[i].name);
		fth_json_string(j, "what", pci->uses[i].what);
		fth_json_end(j);
	}
	fth_json_end(j);
}

static void optional_json(struct fth_json *j, const char *key, const char *text)
{
	fth_json_string(j, key, text[0] ? text : NULL);
}

static void print_drive_json(struct fth_json *j, const struct fth_nvme_pci *pci)
{
	fth_json_object(j, NULL);
	fth_json_string(j, "bdf", pci->bdf);
	fth_json_u64(j, "vendor", pci->vendor);
	fth_json_u64(j, "device", pci->device);
	optional_json(j, "driver", pci->driver);
	optional_json(j, "driver_override", pci->driver_override);
	optional_json(j, "controller", pci->controller);
	optional_json(j, "model", pci->model);
	optional_json(j, "serial", pci->serial);
	fth_json_i64(j, "numa_node", pci->numa_node);
	fth_json_i64(j, "iommu_group", pci->iommu_group);
	fth_json_array(j, "bar_sizes");
	for (unsigned i = 0; i < FTH_NVME_PCI_BARS; i++)
		fth_json_u64(j, NULL, pci->bar_size[i]);
	fth_json_end(j);
	print_blocks_json(j, pci);
	fth_json_end(j);
}

static void print_list_json(const struct fth_nvme_pci *list, int n)
{
	struct fth_json j;

	fth_json_begin(&j, stdout);
	fth_json_array(&j, "drives");
	for (int i = 0; i < n; i++)
		print_drive_json(&j, &list[i]);
	fth_json_finish(&j);
}

static int run_ls(int argc, char **argv)
{
	static const struct fth_cli_usage usage = {
		.synopsis = "nvme ls",
		.text = "List the NVMe drives on the PCI bus: which driver has each, its IOMMU "
			"group, its\n"
			"block devices, and who uses them. Only root sees all who do.",
	};
	struct fth_nvme_pci *list;
	char **args;
	int status = fth_cli_parse(&usage, argc, argv, &args), n;

	if (status != FTH_CLI_GO_ON)
		return status;
	n = fth_nvme_pci_list(nvme_sysroot(), &list);
	if (n < 0) {
		fth_cli_error("%s", fth_error_text(n));
		return FTH_EXIT_FAILED;
	}
	if (fth_cli_json())
		print_list_json(list, n);
	else
		print_list(list, n);
	fth_nvme_pci_list_free(list, n);
	return FTH_EXIT_OK;
}

static const struct fth_command ls_command = {
	.name = "ls",
	.summary = "list the NVMe drives of this machine",
	.run = run_ls,
};

/* ---- the command ---- */

static const struct fth_command *const subcommands[] = {
	&fth_cmd_nvme_bind, &ls_command,	  &fth_cmd_nvme_smart,
	&fth_cmd_nvme_stat, &fth_cmd_nvme_unbind, NULL,
};

static int run(int argc, char **argv)
{
	return fth_cli_dispatch("fathom nvme", subcommands, argc, argv);
}

const struct fth_command fth_cmd_nvme = {
	.name = "nvme",
	.summary = "inspect NVMe drives, and bind them to vfio-pci",
	.run = run,
};
