package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"duebox.dev/duebox"
)

// send asks the platform's API to send a message. The timeout is half of the job's time, so that an API that
// hangs leads to a nack with a reason and not to a timeout of the job.
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

// judge is the webhook verdict, except that a refused token is a nack, with the API's message as the reason.
func judge(response duebox.Response) duebox.Verdict {
	switch response.Status {
	case 401, 403:
		return duebox.Nackf("the shop's API refused the token (%d)", response.Status)
	case 408, 429:
		return response.Verdict()
	}
	if response.Status < 400 || response.Status >= 500 {
		return response.Verdict()
	}
	var refusal struct {
		Error string `json:"error"`
	}
	why := fmt.Sprintf("the shop's API refused the message (%d)", response.Status)
	if err := response.JSON(&refusal); err == nil && refusal.Error != "" {
		why += ": " + refusal.Error
	}
	return duebox.Drop(why)
}
