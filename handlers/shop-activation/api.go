package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"duebox.dev/duebox"
)

// send has the platform's API send a message. Half of the job's time is for it: an API that does not
// answer is a nack with its reason, and not the end of the job's time.
func send(job *duebox.Job, message message) duebox.Verdict {
	origin, found := job.Config("shop")
	if !found {
		return duebox.Nack(`the configuration value "shop" is missing; it is the API's origin, such as https://api.shop.example`)
	}
	body, err := json.Marshal(message)
	if err != nil {
		return duebox.Drop(err.Error())
	}
	headers := map[string]string{"content-type": "application/json"}
	if token, found := job.Config("token"); found {
		headers["authorization"] = "Bearer " + token
	}
	response, err := job.Send(duebox.Request{
		Method: "POST", URL: strings.TrimRight(origin, "/") + "/messages", Headers: headers, Body: body,
		Timeout: max(job.TimeLeft()/2, time.Millisecond),
	})
	if err != nil {
		return duebox.Nackf("the shop's API: %v", err)
	}
	return judge(response)
}

// judge is the verdict of webhooks, but for a token that is refused, and with what the API says.
func judge(response duebox.Response) duebox.Verdict {
	switch response.Status {
	case 401, 403:
		return duebox.Nackf("the shop's API wants another token (%d)", response.Status)
	case 408, 429:
		return response.Verdict()
	}
	if response.Status < 400 || response.Status >= 500 {
		return response.Verdict()
	}
	var refusal struct {
		Error string `json:"error"`
	}
	why := fmt.Sprintf("the shop's API refuses the message (%d)", response.Status)
	if err := response.JSON(&refusal); err == nil && refusal.Error != "" {
		why += ": " + refusal.Error
	}
	return duebox.Drop(why)
}
